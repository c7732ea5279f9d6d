import type { FieldPath } from '../../apis/schema/json-schema.ts';
import type { Findings } from '../../apis/validate/problem.ts';
import type { WrittenObject } from '../../controller/watch/manifests.ts';

/** An object of another system, with the lines that are said of it. */
export interface Given extends WrittenObject {
  readonly found: Findings;
}

/** An object of nodewall.io, as it is printed. */
export interface Manifest {
  readonly apiVersion: 'nodewall.io/v1alpha1';
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly spec: object;
}

export interface Translated {
  readonly manifest: Manifest;
  /** The object that it comes from. */
  readonly from: Given;
}

/** A system whose objects `nodewall migrate` translates. */
export interface SourceSystem {
  readonly name: string;
  /** Its API group. */
  readonly group: string;
  /**
   * Translates the system's objects, and adds what has no equal to their findings. An object with
   * an error is left out.
   *
   * @param own objects of the group
   * @param others all other objects: Namespaces, Nodes and so on that they refer to
   */
  readonly translate: (own: readonly Given[], others: readonly Given[]) => readonly Translated[];
}

export function toManifest(kind: string, name: string, namespace: string, spec: object): Manifest {
  const metadata = namespace === '' ? { name } : { name, namespace };
  return { apiVersion: 'nodewall.io/v1alpha1', kind, metadata, spec };
}

/** Where something is said: an object, and a field in it. */
export interface FieldPlace {
  readonly found: Findings;
  readonly path: FieldPath;
}
