import { asFields, type FieldMap, type FieldPath } from '../../apis/schema/json-schema.ts';
import { isList, unwrapList, withKind } from '../../apis/validate/object.ts';
import { showText } from '../../apis/validate/problem.ts';
import { addBroken, addObject, type Reading } from './content.ts';
import { brokenLine, type JsonPositions, jsonPositions } from './json-position.ts';
import { firstDocument, type TextSection } from './json-text.ts';

/**
 * Reads the JSON values of a file one after the other, and Lists item by item, so that large ones
 * don't stay in memory.
 */
export function readJson(text: string, reading: Reading): void {
  try {
    let rest: TextSection | null = { text, line: 1 };
    while (rest !== null) rest = readFirst(rest, reading);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    addBroken(reading.content, { reason: 'is nested too deeply', line: 1 });
  }
}

/** Returns the text after the first value; null: it was the last one, or is not valid JSON. */
function readFirst(span: TextSection, reading: Reading): TextSection | null {
  const document = firstDocument(span);
  if (document === null) return null;
  const list = document.items.length === 0 ? null : toList(document.header);
  const values = list === null ? [document] : document.items;
  return values.every((value) => readValue(value, list, reading)) ? document.rest : null;
}

/** The fields of a List without its items; null if it is another object. */
function toList(header: string): FieldMap | null {
  try {
    const fields = asFields(JSON.parse(header));
    return fields !== null && isList(fields) ? fields : null;
  } catch {
    // The whole document isn't valid JSON either; reading that reports the error.
    return null;
  }
}

/** Returns false, and adds a problem, if the text is not valid JSON. */
function readValue(span: TextSection, list: FieldMap | null, reading: Reading): boolean {
  const { content } = reading;
  let parsed: unknown;
  try {
    parsed = JSON.parse(span.text);
  } catch (error) {
    addBroken(content, { reason: jsonReason(error as Error), line: brokenLine(span) });
    return false;
  }
  let positions: JsonPositions | null = null;
  const locate = (): JsonPositions => {
    positions ??= jsonPositions(span);
    return positions;
  };
  for (const { raw, path } of unwrapList(list === null ? parsed : withKind(parsed, list))) {
    const duplicate = isOurs(raw) ? locate().duplicate : null;
    if (duplicate !== null) {
      const reason = `is not valid JSON: the field ${showText(duplicate.field)} appears twice`;
      addBroken(content, { reason, line: duplicate.line });
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

/** The error message of JSON.parse without its quotation of the text. */
function jsonReason({ message }: Error): string {
  return `is not valid JSON: ${/^.*?(?=, "|, \.\.\."| in JSON| at position|$)/s.exec(message)?.[0]}`;
}
