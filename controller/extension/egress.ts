import { EGRESS_OBJECTS } from '../egress/check/egress-objects.ts';
import { EgressCompiling } from '../egress/egress-compiling.ts';
import { EGRESS_VIEW } from '../egress/egress-view.ts';
import type { CompileExtension, ObjectExtension, ViewExtension } from './extension.ts';

/** Fills the port of stage 2. */
export function compileExtension(
  options: ConstructorParameters<typeof EgressCompiling>[0],
): CompileExtension {
  return new EgressCompiling(options);
}

/** Fills the port of stage 1. */
export const OBJECT_EXTENSION: ObjectExtension = EGRESS_OBJECTS;

/** Fills the port of stage 3. */
export const VIEW_EXTENSION: ViewExtension = EGRESS_VIEW;
