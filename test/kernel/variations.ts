/**
 * Variations of claims that `npm test` keeps in another dataplane, address family or form of rules,
 * and further random cases: NODEWALL_VARIATIONS=1 adds them (variations.long.ts, floods.long.ts),
 * and so does NODEWALL_DATAPLANE=NAME.
 */

export function areVariationsWanted(): boolean {
  const { NODEWALL_DATAPLANE: only, NODEWALL_VARIATIONS: all } = process.env;
  return all === '1' || only !== undefined;
}

/** The cases that `npm test` tries, and where variations are wanted those that it leaves out. */
export function withVariations<Case>(cases: readonly Case[], variations: readonly Case[]): readonly Case[] {
  return areVariationsWanted() ? [...cases, ...variations] : cases;
}
