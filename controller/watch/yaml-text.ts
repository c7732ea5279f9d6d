/** One document of a YAML file. */
export interface DocumentText {
  readonly text: string;
  /** 1-based line of the file at which the text starts. */
  readonly line: number;
}

/**
 * Splits at the lines that start with `---`, so that documents can be parsed and cached one by one.
 * In YAML such a line ends a document anywhere, also inside a block scalar. Directives (`%YAML`)
 * stay with the document that they precede.
 */
export function splitDocuments(text: string): DocumentText[] {
  const documents: DocumentText[] = [];
  let start = 0;
  let startLine = 1;
  let line = 1;
  let at = 0;
  const push = (end: number): void => {
    const part = text.slice(start, end);
    if (/[^\s]/.test(part)) documents.push({ text: part, line: startLine });
  };
  while (at < text.length) {
    const next = text.indexOf('\n', at);
    const end = next < 0 ? text.length : next + 1;
    if (at > start && isMarker(text, at) && !onlyDirectives(text, start, at)) {
      push(at);
      start = at;
      startLine = line;
    }
    at = end;
    line++;
  }
  push(text.length);
  return documents;
}

/** `---` alone, or followed by white space. */
function isMarker(text: string, at: number): boolean {
  if (!text.startsWith('---', at)) return false;
  const after = text[at + 3];
  return after === undefined || after === '\n' || after === '\r' || after === ' ' || after === '\t';
}

function onlyDirectives(text: string, start: number, end: number): boolean {
  return (
    text[start] === '%' &&
    /^(?:%[^\n]*\n|#[^\n]*\n|[^\S\n]*\n)*$/.test(text.slice(start, Math.min(end, start + 4096)))
  );
}
