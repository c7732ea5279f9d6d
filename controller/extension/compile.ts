import { EgressCompiling } from '../egress/egress-compiling.ts';
import type { CompileExtension } from './extension.ts';

/** Fills the port of stage 2. */
export function compileExtension(
  options: ConstructorParameters<typeof EgressCompiling>[0],
): CompileExtension {
  return new EgressCompiling(options);
}
