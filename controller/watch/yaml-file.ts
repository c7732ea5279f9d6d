import type { ClusterObject } from '../../apis/objects.ts';
import type { FieldPath } from '../../apis/schema/json-schema.ts';
import { unwrapList } from '../../apis/validate/object.ts';
import { parseYaml } from '../../apis/validate/yaml-document.ts';
import {
  addBroken,
  addObject,
  emptyContent,
  type FileContent,
  LIST_NAMES,
  type Listed,
  type Reading,
} from './content.ts';

/**
 * The parsed content of each document of a file, by its text; lines count from the document's first
 * line. It is kept for each file, so that the next time only changed documents are parsed.
 */
export type DocumentCache = ReadonlyMap<string, FileContent>;

/** Reads the documents of a YAML file; returns the cache for the next time. */
export function readYaml(text: string, reading: Reading, cache: DocumentCache): DocumentCache {
  const next = new Map<string, FileContent>();
  for (const { text: documentText, line } of splitDocuments(text)) {
    const part =
      next.get(documentText) ?? cache.get(documentText) ?? readDocument(documentText, reading, line);
    next.set(documentText, part);
    append(reading.content, part, line - 1);
  }
  return next;
}

function readDocument(text: string, reading: Reading, line: number): FileContent {
  const content = emptyContent(reading.content.file);
  const parsed = parseYaml(text);
  if ('reason' in parsed) {
    addBroken(content, parsed);
    return content;
  }
  // Only comments.
  if (parsed.value === null || parsed.value === undefined) return content;
  for (const { raw, path } of unwrapList(parsed.value)) {
    // A document received as it is written has the lines of the file, any other its own.
    const before = reading.receive === undefined ? 0 : line - 1;
    const lineOf = (at: FieldPath): number => before + parsed.lineOf([...path, ...at]);
    addObject({ ...reading, content }, raw, lineOf);
  }
  return content;
}

function append(content: FileContent, part: FileContent, lines: number): void {
  for (const name of LIST_NAMES) {
    const from: Listed<ClusterObject> = part[name];
    const to: Listed<ClusterObject> = content[name];
    for (const object of from.objects) to.objects.push(object);
    for (const line of from.lines) to.lines.push(line + lines);
    for (const each of from.referenceLines) to.referenceLines.push(each.map((line) => line + lines));
  }
  for (const { otherwise, ...undecided } of part.undecided) {
    const moved = emptyContent(content.file);
    append(moved, otherwise, lines);
    content.undecided.push({ ...undecided, line: undecided.line + lines, otherwise: moved });
  }
  for (const identity of part.rejected) content.rejected.add(identity);
  for (const each of part.rejectedReferences) {
    content.rejectedReferences.push({ ...each, line: each.line + lines });
  }
  for (const problem of part.problems) content.problems.push({ ...problem, line: problem.line + lines });
  if (part.broken) content.broken = true;
}

/** One document of a YAML file. */
interface DocumentText {
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
