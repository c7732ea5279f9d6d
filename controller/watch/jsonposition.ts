import type { FieldPath } from '../../apis/schema/jsonschema.ts';
import { Cursor } from './jsontext.ts';

/** Where the parts of one JSON value stand. */
export interface JsonPositions {
  /** 1-based line of the field, or of the innermost part of its path that is there. */
  lineOf(path: FieldPath): number;
  /** The first field that an object has twice, which JSON.parse hides. */
  readonly duplicate: FieldPath | null;
}

interface Position {
  readonly line: number;
  readonly parts: Map<string | number, Position> | null;
}

/** Deeper parts have no position of their own. */
const DEEPEST = 64;

/** Positions in a text that JSON.parse takes. */
export function jsonPositions(bytes: Uint8Array, firstLine: number): JsonPositions {
  const cursor = new Cursor(bytes);
  cursor.line = firstLine;
  cursor.skipBlank();
  const scan: Scan = { cursor, duplicate: null };
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
  };
}

interface Scan {
  readonly cursor: Cursor;
  duplicate: FieldPath | null;
}

function scanValue(scan: Scan, path: FieldPath, line: number): Position {
  const { cursor } = scan;
  const open = cursor.peek();
  if ((open !== '{' && open !== '[') || path.length > DEEPEST) {
    cursor.skipValue();
    return { line, parts: null };
  }
  const parts = new Map<string | number, Position>();
  cursor.take(open);
  for (let index = 0; cursor.skipBlank() && !cursor.take(open === '{' ? '}' : ']'); index++) {
    const at = cursor.line;
    const step = open === '{' ? (cursor.takeString() ?? '') : index;
    if (open === '{') {
      cursor.skipBlank();
      cursor.take(':');
      cursor.skipBlank();
    }
    if (parts.has(step)) scan.duplicate ??= [...path, step];
    parts.set(step, scanValue(scan, [...path, step], at));
    cursor.skipBlank();
    cursor.take(',');
  }
  return { line, parts };
}
