import type { FieldPath } from '../../apis/schema/json-schema.ts';
import { Cursor } from './json-text.ts';

/** Where the parts of one JSON value stand. */
export interface JsonPositions {
  /** 1-based line of the field, or of the innermost part of its path that is there. */
  lineOf(path: FieldPath): number;
  /** The first field that an object has twice, which JSON.parse hides. */
  readonly duplicate: FieldPath | null;
  /** Where the text stops being JSON; null where it doesn't. */
  readonly brokenLine: number | null;
}

interface Position {
  readonly line: number;
  readonly parts: Map<string | number, Position> | null;
}

/** Deeper parts have no position of their own. */
const DEEPEST = 64;

/** Positions in one value of JSON. */
export function jsonPositions(bytes: Uint8Array, firstLine: number): JsonPositions {
  const cursor = new Cursor(bytes);
  cursor.line = firstLine;
  cursor.skipBlank();
  const scan: Scan = { cursor, duplicate: null, brokenLine: null };
  const root = scanValue(scan, [], cursor.line);
  return {
    lineOf: (path) => {
      let position = root;
      for (const step of path) {
        const next = position.parts?.get(step);
        if (next === undefined) break;
        position = next;
      }
      return position.line;
    },
    duplicate: scan.duplicate,
    brokenLine: scan.brokenLine,
  };
}

interface Scan {
  readonly cursor: Cursor;
  duplicate: FieldPath | null;
  brokenLine: number | null;
}

function scanValue(scan: Scan, path: FieldPath, line: number): Position {
  const { cursor } = scan;
  const open = cursor.peek();
  if ((open !== '{' && open !== '[') || path.length > DEEPEST) {
    if (!cursor.takeValid()) scan.brokenLine ??= cursor.line;
    return { line, parts: null };
  }
  const close = open === '{' ? '}' : ']';
  const parts = new Map<string | number, Position>();
  cursor.take(open);
  cursor.skipBlank();
  if (cursor.take(close)) return { line, parts };
  for (let index = 0; scan.brokenLine === null; index++) {
    const at = cursor.line;
    const step = open === '{' ? takeKey(cursor) : index;
    if (step === null) break;
    if (parts.has(step)) scan.duplicate ??= [...path, step];
    parts.set(step, scanValue(scan, [...path, step], at));
    cursor.skipBlank();
    if (cursor.take(close)) return { line, parts };
    if (!cursor.take(',')) break;
    cursor.skipBlank();
  }
  scan.brokenLine ??= cursor.line;
  return { line, parts };
}

/** A key with its colon; null where there is none. */
function takeKey(cursor: Cursor): string | null {
  const key = cursor.takeString();
  cursor.skipBlank();
  if (key === null || !cursor.take(':')) return null;
  cursor.skipBlank();
  return key;
}
