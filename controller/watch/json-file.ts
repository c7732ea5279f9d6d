import { findNodeAtLocation, type JSONPath, type Node, parseTree, visit } from 'jsonc-parser';
import { asFields, type FieldMap, type FieldPath } from '../../apis/schema/json-schema.ts';
import { isList, unwrapList, withKind } from '../../apis/validate/object.ts';
import { showText } from '../../apis/validate/problem.ts';
import { addBroken, addObject, type Reading } from './content.ts';

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

/** Line numbers of the parts of one JSON value. */
interface JsonPositions {
  /** 1-based line of the field, or of the innermost existing part of its path. */
  lineOf(path: FieldPath): number;
  /** The first field that occurs twice in an object, which JSON.parse hides; null: none. */
  readonly duplicate: { readonly field: string; readonly line: number } | null;
}

function jsonPositions(span: TextSection): JsonPositions {
  const root = parseTree(span.text);
  const twice = root === undefined ? null : duplicateIn(root);
  return {
    lineOf(path) {
      for (let length = path.length; root !== undefined && length > 0; length--) {
        const node = findNodeAtLocation(root, path.slice(0, length));
        if (node !== undefined) return lineAt(span, fieldOf(node).offset);
      }
      return span.line;
    },
    duplicate: twice === null ? null : { field: String(twice.value), line: lineAt(span, twice.offset) },
  };
}

/** The line of the first syntax error. */
function brokenLine({ text, line }: TextSection): number {
  let broken: number | null = null;
  visit(text, { onError: (_, __, ___, at) => (broken ??= at) }, { disallowComments: true });
  return line + (broken ?? 0);
}

function lineAt({ text, line }: TextSection, offset: number): number {
  return line + text.slice(0, offset).split('\n').length - 1;
}

/** The name and value of a field; of an item of a list, the item. */
function fieldOf(node: Node): Node {
  return node.parent?.type === 'property' ? node.parent : node;
}

/** The second key of the first field that occurs twice. */
function duplicateIn({ type, children = [] }: Node): Node | null {
  const keys = new Set<unknown>();
  for (const child of children) {
    const key = type === 'object' ? child.children?.[0] : undefined;
    if (key !== undefined && keys.has(key.value)) return key;
    keys.add(key?.value);
    const found = duplicateIn(child);
    if (found !== null) return found;
  }
  return null;
}

/** A section of JSON text that holds one value. */
interface TextSection {
  readonly text: string;
  /** 1-based line of the file at which it starts. */
  readonly line: number;
}

/** A top-level value. */
interface JsonDocument extends TextSection {
  /** The values in its list `items`; empty if it has none. */
  readonly items: readonly TextSection[];
  /** The text without these values. */
  readonly header: string;
  /** The text after it; null: only white space. */
  readonly rest: TextSection | null;
}

/**
 * Finds the first value of a text, and its items, without parsing them to objects: a List of
 * 100,000 pods is then parsed pod by pod. Null if there is only white space. What is not valid JSON
 * is left to JSON.parse. Throws a RangeError if the text is nested too deeply.
 */
function firstDocument({ text, line: firstLine }: TextSection): JsonDocument | null {
  const { document, items, rest } = scan(text);
  if (document === null) return null;
  const [first = document, last = first] = [items[0], items.at(-1)];
  const toSpan = ({ start, end, line }: Bounds): TextSection => {
    return { text: text.slice(start, end), line: firstLine + line };
  };
  return {
    ...toSpan(document),
    items: items.map(toSpan),
    header: text.slice(document.start, first.start) + text.slice(last.end, document.end),
    rest: rest === null ? null : toSpan(rest),
  };
}

interface Bounds {
  readonly start: number;
  readonly end: number;
  /** From 0. */
  readonly line: number;
}

interface Scan {
  document: Bounds | null;
  items: Bounds[];
  rest: Bounds | null;
}

function scan(text: string): Scan {
  const found: Scan = { document: null, items: [], rest: null };
  const open: { start: number; line: number; depth: number }[] = [];
  let isBroken = false;
  const begin = (start: number, _: number, line: number, __: number, path: () => JSONPath): JSONPath => {
    const at = path();
    open.push({ start, line, depth: at.length });
    return at;
  };
  const end = (offset: number, length: number): void => {
    const { depth = 0, start = 0, line = 0 } = open.pop() ?? {};
    const bounds = { start, end: offset + length, line };
    if (depth === 0) found.document ??= bounds;
    else if (depth === 2) found.items.push(bounds);
  };
  const visitor: Parameters<typeof visit>[1] = {
    onObjectBegin: (...at) => begin(...at).length === 0,
    onObjectEnd: end,
    onArrayBegin(...at) {
      const path = begin(...at);
      const isItems = path.length === 1 && path[0] === 'items';
      // JSON.parse takes the last of several fields of one name.
      if (isItems) found.items = [];
      return isItems;
    },
    onArrayEnd: end,
    onLiteralValue(_, ...at) {
      begin(...at);
      end(at[0], at[1]);
    },
    onError(_, start, __, line) {
      const bounds = { start, end: text.length, line };
      if (open.length > 0) isBroken = true;
      else if (found.document !== null) found.rest ??= bounds;
      else [found.document, isBroken] = [bounds, true];
    },
  };
  visit(text, visitor, { allowEmptyContent: true, disallowComments: true });
  return isBroken ? { ...found, items: [] } : found;
}
