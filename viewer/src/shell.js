// shell.js: words for a command line that somebody copies: a name is data there, too.

export function quoted(text) {
  return `'${text.replace(/'/g, "'\\''")}'`;
}

// The same without quotes where none are needed.
export function shellWord(text) {
  return /^[\w./+-]+$/.test(text) ? text : quoted(text);
}
