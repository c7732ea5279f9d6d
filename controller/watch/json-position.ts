import type { FieldPath } from '../../apis/schema/json-schema.ts';
import { Cursor } from './json-text.ts';

/** Line numbers of the parts of one JSON value. */
export interface JsonPositions {
  /** 1-based line of the field, or of the innermost existing part of its path. */
  lineOf(path: FieldPath): number;
  /** The first field that occurs twice in an object, which JSON.parse hides; null: none. */
  readonly duplicate: FieldPath | null;
  /** The line of the first syntax error; null if there is none. */
  readonly brokenLine: number | null;
}

interface Position {
  readonly line: number;
  readonly parts: Map<string | number, Position> | null;
}

/** Parts nested deeper have no line of their own. */
const DEEPEST = 64;

/** The positions in one JSON value. */
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

/** Reads a key with its colon; null if there is none. */
function takeKey(cursor: Cursor): string | null {
  const key = cursor.takeString();
  cursor.skipBlank();
  if (key === null || !cursor.take(':')) return null;
  cursor.skipBlank();
  return key;
}
