import { type JSONPath, visit } from 'jsonc-parser';

/** A section of JSON text that holds one value. */
export interface TextSection {
  readonly text: string;
  /** 1-based line of the file at which it starts. */
  readonly line: number;
}

/** A top-level value. */
export interface JsonDocument extends TextSection {
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
export function firstDocument({ text, line: firstLine }: TextSection): JsonDocument | null {
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
