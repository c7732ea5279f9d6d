import { asFields, type FieldPath } from '../../apis/schema/json-schema.ts';
import { unwrapList, withKind } from '../../apis/validate/lists.ts';
import { showText } from '../../apis/validate/problem.ts';
import { addBroken, addObject, type Reading } from './content.ts';
import { jsonPositions } from './json-position.ts';
import { type JsonDocument, type Span, splitJson } from './json-text.ts';

/**
 * Reads the JSON values of a file one after the other, and Lists item by item, so that large ones
 * don't stay in memory.
 */
export function readJson(bytes: Buffer, reading: Reading): void {
  const { content } = reading;
  const documents = splitJson(bytes);
  if (documents === null) {
    addBroken(content, jsonReason(bytes, 1));
    return;
  }
  for (const document of documents) {
    const header = parseHeader(bytes, document);
    if ('reason' in header) {
      addBroken(content, { ...header, line: document.line });
      return;
    }
    if (document.items === null || !isListHeader(header.value)) {
      if (!readSpan(bytes, document, (raw) => raw, reading)) return;
      continue;
    }
    const list = asFields(header.value) ?? {};
    for (const item of document.items) {
      if (!readSpan(bytes, item, (raw) => withKind(raw, list), reading)) return;
    }
  }
}

/** The document without the items of its list. */
function parseHeader(
  bytes: Buffer,
  { start, end, items }: JsonDocument,
): { value: unknown } | { reason: string } {
  const first = items?.[0];
  const last = items?.at(-1);
  if (first === undefined || last === undefined) return { value: null };
  const text = bytes.toString('utf8', start, first.start) + bytes.toString('utf8', last.end, end);
  try {
    return { value: JSON.parse(text) as unknown };
  } catch (error) {
    return { reason: `is not valid JSON: ${(error as Error).message}` };
  }
}

function isListHeader(value: unknown): boolean {
  const { kind } = asFields(value) ?? {};
  return typeof kind === 'string' && kind.endsWith('List');
}

/** Returns false, and adds a problem, if the text is not valid JSON. */
function readSpan(bytes: Buffer, span: Span, complete: (raw: unknown) => unknown, reading: Reading): boolean {
  const { content } = reading;
  const text = bytes.toString('utf8', span.start, span.end);
  let value: unknown;
  try {
    value = complete(JSON.parse(text));
  } catch {
    addBroken(content, jsonReason(bytes.subarray(span.start, span.end), span.line));
    return false;
  }
  let positions: ReturnType<typeof jsonPositions> | null = null;
  const locate = (): ReturnType<typeof jsonPositions> => {
    positions ??= jsonPositions(bytes.subarray(span.start, span.end), span.line);
    return positions;
  };
  for (const { raw, path } of unwrapList(value)) {
    if (isOurs(raw) && locate().duplicate !== null) {
      const duplicate = locate().duplicate ?? [];
      const reason = `is not valid JSON: the field ${showText(String(duplicate.at(-1)))} appears twice`;
      addBroken(content, { reason, line: locate().lineOf(duplicate) });
      return false;
    }
    const lineOf = (at: FieldPath): number =>
      at.length === 0 && path.length === 0 ? span.line : locate().lineOf([...path, ...at]);
    addObject(reading, raw, lineOf);
  }
  return true;
}

/**
 * Whether the object is one of the kinds that people write by hand: a hidden duplicate field would
 * change its meaning.
 */
function isOurs(raw: unknown): boolean {
  const { apiVersion } = asFields(raw) ?? {};
  return typeof apiVersion === 'string' && /^(nodewall\.io|crd\.antrea\.io)\//.test(apiVersion);
}

/** The error message of JSON.parse without its quotation of the text, and the line of the error. */
function jsonReason(bytes: Buffer, firstLine: number): { reason: string; line: number } {
  const line = jsonPositions(bytes, firstLine).brokenLine ?? firstLine;
  try {
    JSON.parse(bytes.toString());
    return { reason: 'is not valid JSON', line };
  } catch (error) {
    const said = /^.*?(?=, "|, \.\.\."| in JSON| at position|$)/s.exec((error as Error).message)?.[0];
    return { reason: `is not valid JSON: ${said}`, line };
  }
}
