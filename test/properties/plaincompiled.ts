import type { Compiled } from '../../apis/compiled.ts';

/** The same with maps that are Map objects: `assert.deepEqual` compares the entries of no others. */
export function plainCompiled(compiled: Compiled): Compiled {
  const { addressSets, serviceSets } = compiled;
  return { ...compiled, addressSets: new Map(addressSets), serviceSets: new Map(serviceSets) };
}
