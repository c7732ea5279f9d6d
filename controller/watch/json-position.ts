import { findNodeAtLocation, type Node, parseTree, visit } from 'jsonc-parser';
import type { FieldPath } from '../../apis/schema/json-schema.ts';
import type { TextSection } from './json-text.ts';

/** Line numbers of the parts of one JSON value. */
export interface JsonPositions {
  /** 1-based line of the field, or of the innermost existing part of its path. */
  lineOf(path: FieldPath): number;
  /** The first field that occurs twice in an object, which JSON.parse hides; null: none. */
  readonly duplicate: { readonly field: string; readonly line: number } | null;
}

export function jsonPositions(span: TextSection): JsonPositions {
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
export function brokenLine({ text, line }: TextSection): number {
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
