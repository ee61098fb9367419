// shell.js: quotes words for command lines that the reader copies: a name of the trace may contain anything.

export function quoted(text) {
  return `'${text.replace(/'/g, "'\\''")}'`;
}

// Quotes TEXT only if it needs quotes.
export function shellWord(text) {
  return /^[\w./+-]+$/.test(text) ? text : quoted(text);
}
