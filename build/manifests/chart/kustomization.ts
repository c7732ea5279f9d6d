import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { type Document, parseAllDocuments, parseDocument } from 'yaml';
import type { KustomizeOperation } from './template-document.ts';

const KUSTOMIZE = new URL('../../../deploy/kustomize/', import.meta.url);

/** The target of a patch; an absent field is any. */
export interface PatchTarget {
  readonly kind?: string;
  readonly group?: string;
  readonly name: string;
}

export type Patch =
  | { readonly kind: 'operations'; readonly target: PatchTarget; readonly operations: KustomizeOperation[] }
  | { readonly kind: 'delete'; readonly target: PatchTarget };

/** As much of a kustomization as the chart is made of. */
export interface Kustomization {
  /** This folder's own files, by their names; other folders are left out. */
  readonly files: ReadonlyMap<string, readonly Document[]>;
  readonly patches: readonly Patch[];
  readonly images: readonly { readonly name: string; readonly newName: string; readonly newTag: string }[];
}

interface Written {
  readonly resources?: readonly string[];
  readonly patches?: readonly { readonly target?: PatchTarget; readonly patch: string }[];
  readonly images?: Kustomization['images'];
}

/** @param folder below deploy/kustomize */
export function readKustomization(folder: string): Kustomization {
  const written = parseDocument(readText(folder, 'kustomization.yaml')).toJS() as Written;
  const names = (written.resources ?? []).filter((name) => name.endsWith('.yaml'));
  return {
    files: new Map(names.map((name) => [name, parseAllDocuments(readText(folder, name)) as Document[]])),
    patches: (written.patches ?? []).map(({ target, patch }) => toPatch(target, patch)),
    images: written.images ?? [],
  };
}

/** @param folder below deploy/kustomize */
export function readText(folder: string, name: string): string {
  return readFileSync(new URL(`${folder}/${name}`, KUSTOMIZE), 'utf8');
}

function toPatch(target: PatchTarget | undefined, text: string): Patch {
  const patch: unknown = parseDocument(text).toJS();
  if (target !== undefined) {
    assert.ok(Array.isArray(patch), text);
    return { kind: 'operations', target, operations: patch as KustomizeOperation[] };
  }
  const { $patch, kind, metadata } = patch as { $patch: string; kind: string; metadata: { name: string } };
  assert.equal($patch, 'delete', text);
  return { kind: 'delete', target: { kind, name: metadata.name } };
}
