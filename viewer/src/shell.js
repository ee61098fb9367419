// shell.js: quotes words for command lines that a reader copies into a shell. Names from a trace may contain
// any character.

export function quoted(text) {
  return `'${text.replace(/'/g, "'\\''")}'`;
}

// Quotes TEXT only if it needs quotes.
export function shellWord(text) {
  return /^[\w./+-]+$/.test(text) ? text : quoted(text);
}
