import { type Chain, type NamedSet, type NftRule, type Ruleset, targets } from '../../render/ruleset.ts';
import type { ChainVerdict, VerdictMap } from '../../render/verdict-map.ts';
import type { DataplaneChange } from '../reconciler-interface.ts';
import { BATCH_ELEMENTS, type Command, commandText, type ElementsCommand, elementCount } from './command.ts';
import {
  type CurrentChain,
  type CurrentMap,
  type CurrentSet,
  type CurrentState,
  EMPTY_STATE,
  holdsChain,
  sameHook,
  sameKeys,
  samePolicy,
} from './current-state.ts';
import { type Difference, mapDifference, type Replacement } from './difference.ts';
import { mapChange, mapElements, memberChange, sameElements } from './element-change.ts';
import { filledLate, rewrite } from './rewrite.ts';

/**
 * The commands from the current state of the kernel to a ruleset. Each part is one kernel
 * transaction (see command.ts for large sets); they run in this order.
 * docs/adr/0009 explains the order: a packet traverses the rules of one generation, but looks up
 * sets and maps as they are at that moment.
 *
 * 1. rename: chains whose rules are unknown are renamed; they stay in force.
 * 2. prepare: new objects that nothing leads to yet: sets and maps with their elements, chains with
 *    their rules; base chains, and what only these lead to, without rules.
 * 3. members: elements added to sets in use.
 * 4. swap: rules of these and of chains in use; keys of maps in use that are new or get another
 *    verdict.
 * 5. withdraw: members of sets and keys of maps that are no longer desired. After this part the
 *    ruleset is in force.
 * 6. collect: garbage-collects objects that nothing leads to any more.
 *
 * A part with nothing to do is empty. If only the rules of chains change, and not the verdicts and
 * maps that lead to them, the swap rewrites these chains as a whole (rewrite.ts). If the current
 * state can't be changed in place (a set of our name with another type), the whole table is
 * replaced in one transaction.
 */
export interface Transaction {
  readonly rename: readonly Command[];
  readonly prepare: readonly Command[];
  readonly members: readonly Command[];
  readonly swap: readonly Command[];
  readonly withdraw: readonly Command[];
  readonly collect: readonly Command[];
}

const NO_CHANGE: Transaction = { rename: [], prepare: [], members: [], swap: [], withdraw: [], collect: [] };

export function transaction(current: CurrentState, desired: Ruleset): Transaction {
  const found = differences(current, desired);
  if (needsReplacement(current, found)) return replacement(desired);
  const renames = renamed(current, desired, found);
  if (renames.size === 0)
    return rewriting(current, found) ?? inPlace(current, { ...found, desired }, NO_CHANGE.rename);
  const now: CurrentState = {
    ...current,
    chains: renameChains(current.chains, desired, renames),
    maps: renameTargets(current.maps, renames),
  };
  return inPlace(now, { ...differences(now, desired), desired }, renameCommands(current, renames));
}

export function isEmptyTransaction(change: Transaction): boolean {
  return Object.values(change).every((part) => part.length === 0);
}

/** Whether the transaction changes more than elements of sets and maps. */
export function changesStructure(change: Transaction): boolean {
  return Object.values(change).some((part: readonly Command[]) => part.some((one) => !isElements(one)));
}

function isElements(command: Command): command is ElementsCommand {
  return 'keys' in command;
}

interface Differences {
  readonly chains: Difference<CurrentChain, Chain>;
  readonly sets: Difference<CurrentSet, NamedSet>;
  readonly maps: Difference<CurrentMap, VerdictMap>;
}

function differences({ chains, sets, maps }: CurrentState, desired: Ruleset): Differences {
  return {
    chains: mapDifference(chains, desired.chains),
    sets: mapDifference(sets, desired.sets),
    maps: mapDifference(maps, desired.maps),
  };
}

/**
 * Whether the state can't be changed in place. The kernel can't change the type of a set, nor the
 * hook or priority of a base chain. It can give a range of an interval map another verdict, but
 * lookups would miss the range for a moment.
 */
function needsReplacement(current: CurrentState, { chains, sets, maps }: Differences): boolean {
  return (
    sets.added.some(({ name }) => current.maps.has(name)) ||
    maps.added.some(({ name }) => current.sets.has(name)) ||
    sets.changed.some((change) => !sameType(change.current, change.desired)) ||
    maps.changed.some((change) => !isChangeable(change.current, change.desired)) ||
    chains.changed.some((change) => !sameHook(change.current.base, change.desired.base))
  );
}

function sameType(a: CurrentSet, b: NamedSet): boolean {
  const isTimed = (a.timed ?? false) === (b.timed ?? false);
  return isTimed && a.family === b.family && a.key === b.key && a.interval === b.interval;
}

function isChangeable(current: CurrentMap, map: VerdictMap): boolean {
  if (!sameKeys(current, map) || current.interval !== map.interval) return false;
  return !map.interval || sameElements(current, map);
}

/**
 * The interim ruleset to apply first, with the same effect as `desired`; null if none is needed.
 *
 * If chains that look up a map are rewritten and the map also loses keys, neither order is right
 * for packets in between: the old key with the new rules around it, or the old rules without the
 * key, may give a verdict that neither ruleset gives. So the new chains get maps of their own under
 * another name, and the step from there to `desired` changes only names.
 */
export function interimRuleset(current: CurrentState, desired: Ruleset): Ruleset | null {
  if (!current.table || current.maps === desired.maps) return null;
  const { changed } = mapDifference(current.chains, desired.chains);
  if (changed.every((change) => holdsChain(change.current, change.desired))) return null;
  const found = differences(current, desired);
  if (needsReplacement(current, found)) return null;
  const moved = new Map<string, string>();
  for (const change of found.maps.changed) {
    if (change.desired.interval || mapChange(change.current, change.desired).less.length === 0) continue;
    moved.set(change.desired.name, otherName(change.desired.name, current));
  }
  return moved.size === 0 ? null : withMapsMoved(desired, moved);
}

function otherName(name: string, { sets, maps }: CurrentState): string {
  let number = 0;
  while (maps.has(`moved-${number}-${name}`) || sets.has(`moved-${number}-${name}`)) number++;
  return `moved-${number}-${name}`;
}

function withMapsMoved({ chains, sets, maps }: Ruleset, moved: ReadonlyMap<string, string>): Ruleset {
  const renameMap = (rule: NftRule): NftRule => {
    if (!('map' in rule.statement)) return rule;
    const map = moved.get(rule.statement.map);
    return map === undefined ? rule : { ...rule, statement: { ...rule.statement, map } };
  };
  const moveChain = (chain: Chain): Chain => {
    const rules = chain.rules.map(renameMap);
    const isSame = rules.every((rule, i) => rule === chain.rules[i]);
    return isSame ? chain : { ...chain, fixed: false, rules };
  };
  const named = [...maps.values()].map(
    (map): VerdictMap => ({ ...map, name: moved.get(map.name) ?? map.name }),
  );
  return {
    sets,
    chains: new Map([...chains].map(([name, chain]) => [name, moveChain(chain)])),
    maps: new Map(named.map((map) => [map.name, map])),
  };
}

/** Replaces the whole table in one transaction. */
export function replacement(desired: Ruleset): Transaction {
  const { prepare, swap } = inPlace(EMPTY_STATE, { ...differences(EMPTY_STATE, desired), desired }, []);
  // Deleting a table fails unless it exists, so it is added first.
  return { ...NO_CHANGE, swap: [{ kind: 'addTable' }, { kind: 'deleteTable' }, ...prepare, ...swap] };
}

export function isReplacement({ swap }: Transaction): boolean {
  return swap[1]?.kind === 'deleteTable';
}

/**
 * New names for the fixed chains whose rules are not known to be the desired ones, and for the
 * chains that jump to one of these: a jump refers to the chain itself, whatever its name becomes.
 * Chains that ranges of interval maps lead to are left out, because the verdict of a range can't be
 * changed in place. The swap rewrites them; that is wrong for a moment at most for a chain that a
 * third party changed, not for the whole table.
 */
function renamed(current: CurrentState, desired: Ruleset, { chains }: Differences): Map<string, string> {
  const renames = new Map<string, string>();
  if (chains.changed.every((change) => !change.desired.fixed || change.current.rules !== null))
    return renames;
  const pinned = rangeTargets(current.maps);
  const fixed = [...desired.chains.values()].filter(
    ({ fixed: isFixed, name }) => isFixed && current.chains.has(name) && !pinned.has(name),
  );
  let number = 0;
  for (let found = -1; found !== renames.size; ) {
    found = renames.size;
    for (const chain of fixed) {
      const there = current.chains.get(chain.name);
      if (there === undefined || renames.has(chain.name)) continue;
      if (there.rules !== null && !jumpsTo(chain, renames)) continue;
      while (current.chains.has(`stale-${number}`)) number++;
      renames.set(chain.name, `stale-${number++}`);
    }
  }
  return renames;
}

function rangeTargets(maps: CurrentState['maps']): Set<string> {
  const names = new Set<string>();
  for (const { interval, verdicts } of maps.values())
    if (interval) for (const { chain } of verdicts) names.add(chain);
  return names;
}

function renameCommands({ handles }: CurrentState, renames: ReadonlyMap<string, string>): Command[] {
  return [...renames].map(([name, to]) => {
    const handle = handles.get(name);
    if (handle === undefined) throw new Error(`the handle of chain ${name} is not known`);
    return { kind: 'renameChain', name, handle, to };
  });
}

function jumpsTo({ rules }: Pick<Chain, 'rules'>, chains: ReadonlyMap<string, string>): boolean {
  return (
    chains.size > 0 && rules.some(({ statement }) => targets(statement).some((name) => chains.has(name)))
  );
}

/**
 * The current chains after the renames. An index chain that jumps to a renamed chain must be
 * written again.
 */
function renameChains(
  chains: CurrentState['chains'],
  desired: Ruleset,
  renames: ReadonlyMap<string, string>,
): CurrentState['chains'] {
  return new Map(
    [...chains].map(([name, chain]) => {
      const isStale = renames.has(name) || jumpsTo(desired.chains.get(name) ?? { rules: [] }, renames);
      return [renames.get(name) ?? name, isStale ? { base: chain.base, rules: null } : chain];
    }),
  );
}

function renameTargets(
  maps: CurrentState['maps'],
  renames: ReadonlyMap<string, string>,
): CurrentState['maps'] {
  const renameVerdict = (verdict: ChainVerdict): ChainVerdict => {
    const chain = renames.get(verdict.chain);
    return chain === undefined ? verdict : { kind: verdict.kind, chain };
  };
  return new Map(
    [...maps].map(([name, map]): [string, CurrentMap] => {
      if (!map.verdicts.some(({ chain }) => renames.has(chain))) return [name, map];
      return [name, { ...map, fixed: false, verdicts: map.verdicts.map(renameVerdict) }];
    }),
  );
}

function inPlace(
  current: CurrentState,
  found: Differences & { readonly desired: Ruleset },
  rename: readonly Command[],
): Transaction {
  const { chains, sets, maps } = found;
  const late = filledLate(chains.added, found.desired);
  const members = sets.changed.map((change) => memberChange(change.current, change.desired));
  const keys = maps.changed.map((change) => mapChange(change.current, change.desired));
  return {
    rename,
    prepare: prepare(current, found, late),
    ...atOnce({
      members: members.flatMap(({ more }) => more),
      swap: [...swapRules(current, chains, late), ...keys.flatMap(({ swap }) => swap)],
    }),
    withdraw: [...keys.flatMap(({ less }) => less), ...members.flatMap(({ less }) => less)],
    collect: collect(found),
  };
}

/**
 * If only hash sets and maps get elements, one transaction adds them all, so that lookups find all
 * of them from the same moment on.
 */
function atOnce({
  members,
  swap,
}: Pick<Transaction, 'members' | 'swap'>): Pick<Transaction, 'members' | 'swap'> {
  const isSmall = (command: Command) =>
    isElements(command) && !command.interval && elementCount(command) <= BATCH_ELEMENTS;
  if (members.length === 0 || swap.length === 0) return { members, swap };
  if (!members.every(isSmall) || !swap.every(isElements)) return { members, swap };
  return { members: [], swap: [...members, ...swap] };
}

/**
 * Adds new sets, then rewrites chains in one transaction; null if anything but the rules of chains
 * changes.
 */
function rewriting(current: CurrentState, found: Differences): Transaction | null {
  if (!current.table || current.dormant || found.sets.changed.some(changesMembers)) return null;
  const swap = rewrite(current, found);
  if (swap === null) return null;
  const sets = { ...found, chains: NO_DIFFERENCE, maps: NO_DIFFERENCE };
  return { ...NO_CHANGE, prepare: prepare(current, sets, new Set()), swap, collect: collect(sets) };
}

function changesMembers(change: Replacement<CurrentSet, NamedSet>): boolean {
  const { more, less } = memberChange(change.current, change.desired);
  return more.length > 0 || less.length > 0;
}

const NO_DIFFERENCE = { added: [], changed: [], gone: [] };

function prepare(
  { table }: CurrentState,
  { chains, sets, maps }: Differences,
  late: ReadonlySet<string>,
): Command[] {
  const commands: Command[] = [];
  if (!table) commands.push({ kind: 'addTable' });
  const many = sets.added.length > MANY_SETS;
  const addMaps = maps.added.map((map): Command => ({ kind: 'addMap', map }));
  if (many) commands.push(...addMaps);
  for (const set of many ? largestFirst(sets.added) : sets.added) {
    // Elements follow their set directly: the kernel then finds the set quickly, by its id in this
    // transaction.
    commands.push({ kind: 'addSet', set }, ...memberChange(undefined, set).more);
  }
  if (!many) commands.push(...addMaps);
  // In the order of the ruleset, in which `nft list` shows them.
  for (const chain of chains.added) commands.push({ kind: 'addChain', chain });
  for (const chain of chains.added) if (!late.has(chain.name)) addRules(commands, chain);
  for (const map of maps.added) commands.push(...mapElements(map));
  return commands;
}

/**
 * The kernel searches sets by name in the order of their creation. Among more sets than this, those
 * that change often are created first: maps, and sets with many members. (Fewer sets are created in
 * the order of the ruleset, in which `nft list` then shows them.)
 */
const MANY_SETS = 1000;

function largestFirst(sets: readonly NamedSet[]): NamedSet[] {
  const size = ({ members }: NamedSet): number => members.singles.length + members.prefixes.length;
  return sets.toSorted((a, b) => size(b) - size(a));
}

function addRules(commands: Command[], { name, rules, source }: Chain): void {
  for (const rule of rules) commands.push({ kind: 'addRule', chain: name, rule, source });
}

/**
 * Changes the rules that packets traverse. A ruleset has chains of the index before those that they
 * lead to, so a jump is added before the rules behind it: for each jump that is added Linux 5.10
 * walks along every path behind it (`nf_tables_check_loops`), past all sets of the table at each
 * chain.
 */
function swapRules(
  { dormant }: CurrentState,
  { added, changed }: Difference<CurrentChain, Chain>,
  late: ReadonlySet<string>,
): Command[] {
  const commands: Command[] = [];
  // `add table` without the flag `dormant` switches the table on again.
  if (dormant) commands.push({ kind: 'addTable' });
  const rewritten: Chain[] = [];
  for (const { current, desired } of changed) {
    if (!samePolicy(current.base, desired.base)) commands.push({ kind: 'addChain', chain: desired });
    if (!holdsChain(current, desired)) rewritten.push(desired);
  }
  for (const { name } of rewritten) commands.push({ kind: 'flushChain', name });
  for (const chain of rewritten) addRules(commands, chain);
  for (const chain of added) if (late.has(chain.name)) addRules(commands, chain);
  return commands;
}

/** Flushes come first, so that no object to be deleted is in use by another. */
function collect({ chains, sets, maps }: Differences): Command[] {
  return [
    ...chains.gone.map((name): Command => ({ kind: 'flushChain', name })),
    ...maps.gone.map((name): Command => ({ kind: 'deleteSet', name })),
    ...chains.gone.map((name): Command => ({ kind: 'deleteChain', name })),
    ...sets.gone.map((name): Command => ({ kind: 'deleteSet', name })),
  ];
}

/** The text that `dump transaction` prints. */
export function transactionText(transaction: Transaction): string {
  const parts = Object.entries(transaction).filter(([, commands]) => commands.length > 0);
  return parts.map(([title, commands]) => `# ${title}\n${commands.map(commandText).join('\n')}\n`).join('');
}

/** Converts a transaction to the form that the rest of the program sees. */
export function nftChange(transaction: Transaction): DataplaneChange {
  return {
    isEmpty: isEmptyTransaction(transaction),
    changesStructure: changesStructure(transaction),
    text: () => transactionText(transaction),
  };
}
