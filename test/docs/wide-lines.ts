/** Columns of prose in Markdown. */
export const WIDTH = 120;
/** Headings, tables and blocks of code cannot be wrapped; a list's mark is no place to wrap at. */
const UNWRAPPED = /^\s*(#|\|| {4})/;
const MARK = /^\s*(?:(?:[-*>]|\d+\.) +)?/;

/** The 1-based lines of a Markdown text that are wider, and could be wrapped. */
export function wideLines(text: string): number[] {
  let isCode = false;
  return text.split('\n').flatMap((line, index) => {
    if (/^\s*(```|~~~)/.test(line)) isCode = !isCode;
    if (isCode || line.length <= WIDTH || UNWRAPPED.test(line)) return [];
    return line.replace(MARK, '').lastIndexOf(' ', WIDTH) > 0 ? [index + 1] : [];
  });
}
