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
import { splitDocuments } from './yaml-text.ts';

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
