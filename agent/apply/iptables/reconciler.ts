import { type DelOperation, IpsetError, type Operation, toRestoreText } from 'ipset-ts';
import { FAMILIES, type Family } from '../../../lib/net/address.ts';
import type { IptablesRuleset, IptablesTable } from '../../render/iptables/tables.ts';
import { type Applied, type Change, type Reconciler, RefusedError } from '../dataplane.ts';
import { collectSets } from './collect-sets.ts';
import { compare, type IptablesState } from './compare.ts';
import { forgetForms, shownForms } from './forms.ts';
import { readSets, toKernelSet } from './kernel-set.ts';
import { asTables } from './put-back.ts';
import { blame } from './refused.ts';
import { type RuleChange, ruleChange, sameText } from './rule-change.ts';
import { parseSaved, type SavedTables } from './saved.ts';
import { type SetChange, setChange, TEMPORARY_PREFIX } from './set-change.ts';
import { IptablesError, type IptablesTools } from './tools.ts';

/**
 * Stage 6 for the dataplane iptables. A change takes at most one process of `ipset`, one restore
 * for each family, and a second process of `ipset` if sets are destroyed or rules change and
 * members are deleted. One call at a time.
 *
 * Rules are read before they are changed, for their counters; sets only at first, by `verify` and
 * after a failure. A restore is atomic for each table only, so if a later table is refused, the
 * earlier ones get their saved state back.
 */
export class IptablesReconciler implements Reconciler<IptablesRuleset> {
  readonly #tools: IptablesTools;
  #applied: IptablesRuleset | null = null;
  /** The sets in the kernel, if all of `#applied` is in force; else null. */
  #known: IptablesState['sets'] | null = null;
  /**
   * The last reading, for when `#known` is null; null: the kernel must be read before the next
   * change.
   */
  #found: IptablesState | null = null;
  readonly #shown: Readonly<Record<Family, Map<string, string>>> = { 4: new Map(), 6: new Map() };
  /**
   * Families that the kernel lacks, and its message: no rules are applied for them until the kernel
   * supports them.
   */
  readonly #lacking = new Map<Family, string>();
  /**
   * Unused sets that could not be destroyed, because rules of third parties name them. If one is
   * desired again it must not keep its old members.
   */
  #stuck: IptablesState['sets'] = new Map();

  constructor(tools: IptablesTools) {
    this.#tools = tools;
  }

  /** The ruleset applied last; null before the first apply. */
  inForce(): IptablesRuleset | null {
    return this.#applied;
  }

  /** The change that `apply` would make now; changes nothing. */
  async plan(desired: IptablesRuleset): Promise<Change> {
    return toChange(await this.#plan(desired));
  }

  /**
   * Throws RefusedError if a rule is refused, IptablesError or IpsetError for all other failures.
   */
  async apply(desired: IptablesRuleset): Promise<Applied> {
    const isFresh = this.#known === null && this.#found === null;
    const started = performance.now();
    try {
      return await this.#apply(desired, started);
    } catch (error) {
      // A third party may have changed something since the state was read: it is read again before
      // a policy is blamed.
      const isRefused = error instanceof RefusedError || error instanceof IpsetError;
      if (isFresh || !isRefused) throw error;
      return await this.#apply(desired, started);
    }
  }

  async #apply(desired: IptablesRuleset, started: number): Promise<Applied> {
    const planned = await this.#plan(desired);
    const { sets, rules } = planned;
    // The kernel's state is unknown until everything has gone through.
    this.#known = null;
    this.#found = null;
    const asked = performance.now();
    // If only members change, one process does it all.
    const changesRules = FAMILIES.some((family) => rules[family].text !== '');
    const [first, less] = changesRules ? [sets.first, sets.less] : [[...sets.first, ...sets.less], []];
    await this.#tools.ipset.restore(first, { exist: true, plain: false });
    const errors = await this.#restoreAll(rules);
    this.#letGo(errors, rules);
    if (errors.size > 0) throw await this.#undone(planned, errors);
    let enforced = performance.now();
    this.#applied = desired;
    const leftBehind = await this.#collect(planned, less);
    if (changesRules && sets.less.length > 0) enforced = performance.now();
    for (const family of FAMILIES) await this.#learnForms(family, rules[family], desired);
    this.#known = sets.held;
    return {
      change: toChange(planned),
      leftBehind,
      warning: this.#warning(),
      enforcedAfter: enforced - started,
      kernelMicroseconds: Math.round(1000 * (enforced - asked)),
    };
  }

  async #plan(desired: IptablesRuleset): Promise<Planned> {
    if (this.#known === null) this.#found ??= await this.#read();
    const [rules4, rules6] = await Promise.all([this.#ruleChange(4, desired), this.#ruleChange(6, desired)]);
    const rules = { 4: rules4, 6: rules6 };
    const before = this.#found?.sets ?? new Map([...(this.#known ?? []), ...this.#stuck]);
    const sets = setChange(before, desired.sets);
    // Destroying a stuck set again costs a process: only after a reading, and if nothing else is to
    // be done.
    const isIdle =
      sets.first.length + sets.less.length === 0 && FAMILIES.every((family) => rules[family].text === '');
    const last =
      this.#found !== null || isIdle ? sets.last : sets.last.filter(({ name }) => !this.#stuck.has(name));
    return { sets: { ...sets, last }, before, rules };
  }

  async #ruleChange(family: Family, desired: IptablesRuleset): Promise<PlannedRules> {
    if (this.#lacking.has(family)) return NO_CHANGE;
    const tables = this.#applied?.families[family] ?? null;
    const wanted = desired.families[family];
    let saved = this.#found?.families[family];
    if (saved === undefined) {
      if (tables !== null && sameTables(tables, wanted)) return NO_CHANGE;
      saved = parseSaved(await this.#tools.save(family));
    }
    return { ...ruleChange(saved, wanted, { tables, shown: this.#shown[family] }), saved };
  }

  async #read(): Promise<IptablesState> {
    const [rules4, rules6, sets] = await Promise.all([
      this.#tools.save(4),
      this.#tools.save(6),
      readSets(this.#tools.ipset),
    ]);
    // The table exists now: its module has been loaded.
    for (const [family, saved] of [[4, rules4] as const, [6, rules6] as const])
      if (/^\*filter$/m.test(saved)) this.#lacking.delete(family);
    this.#stuck = new Map([...this.#stuck].filter(([name]) => sets.has(name)));
    return { families: { 4: parseSaved(rules4), 6: parseSaved(rules6) }, sets };
  }

  /**
   * Restores both families concurrently, so that they differ for as short a time as possible.
   * Returns when both have ended.
   */
  async #restoreAll(rules: Planned['rules']): Promise<Map<Family, unknown>> {
    const errors = new Map<Family, unknown>();
    await Promise.all(
      FAMILIES.map((family) =>
        this.#restore(family, rules[family]).catch((error: unknown) => errors.set(family, error)),
      ),
    );
    return errors;
  }

  /**
   * A kernel without IPv6 (or without its tables) must not prevent the rules of the other family.
   * If the kernel lacks both, that is an error.
   */
  #letGo(errors: Map<Family, unknown>, rules: Planned['rules']): void {
    if (errors.size + this.#lacking.size !== 1) return;
    for (const [family, error] of errors) {
      if (!lacksFilter(error) || rules[family].saved.filter.chains.size > 0) continue;
      errors.delete(family);
      this.#lacking.set(family, error.message);
    }
  }

  #warning(): string | null {
    const words = [...this.#lacking].map(
      ([family, said]) => `no rule for IPv${family} is in force; the kernel lacks support: ${said}`,
    );
    return words[0] ?? null;
  }

  /**
   * Undoes a failed change and returns the error to throw; of several, the refusal. The other
   * family, or another table, may have been changed before the refusal: its saved state is put
   * back. If that fails, the error is not a RefusedError, because the rules in force are unknown.
   */
  async #undone(planned: Planned, errors: ReadonlyMap<Family, unknown>): Promise<unknown> {
    const [first] = errors.values();
    const refusal = [...errors.values()].find((error) => error instanceof RefusedError);
    let thrown = refusal ?? first;
    try {
      if (refusal !== undefined)
        await Promise.all(FAMILIES.map((family) => this.#putBack(family, planned.rules[family])));
    } catch (error) {
      const said = error instanceof Error ? error.message : String(error);
      thrown = new Error(`${refusal?.message}; cannot restore the previous rules: ${said}`, {
        cause: refusal,
      });
    }
    await this.#revoke(planned, (family) => refusal === undefined && !errors.has(family));
    return thrown;
  }

  /**
   * Deletes members although the change failed, since the failure may last long. Only members of a
   * family whose table filter has yet to change wait: all rules that name sets are in that table.
   */
  async #revoke({ sets, rules }: Planned, isChanged: (family: Family) => boolean): Promise<void> {
    const families = FAMILIES.filter(
      (family) => isChanged(family) || ![...rules[family].commits.values()].includes('filter'),
    );
    const less = sets.less.filter(({ set }) =>
      families.some((one) => sets.held.get(set.name)?.family === one),
    );
    // The error that is thrown matters more: members that could not be deleted are found when the
    // next apply reads.
    await this.#tools.ipset.restore(less, { exist: true }).catch(() => undefined);
  }

  /** The sets that the saved rules name still exist, because sets are destroyed last. */
  async #putBack(family: Family, { text, saved }: PlannedRules): Promise<void> {
    if (text === '') return;
    const now = parseSaved(await this.#tools.save(family));
    const back = ruleChange(now, asTables(saved), { tables: null, shown: new Map() });
    if (back.text !== '') await this.#tools.restore(family, back.text);
  }

  async #restore(family: Family, change: RuleChange): Promise<void> {
    if (change.text === '') return;
    try {
      await this.#tools.restore(family, change.text);
    } catch (error) {
      if (!(error instanceof IptablesError) || error.code !== 'REFUSED') throw error;
      throw await blame(this.#tools, family, change, error);
    }
  }

  async #learnForms(family: Family, { rewritten }: RuleChange, desired: IptablesRuleset): Promise<void> {
    const shown = this.#shown[family];
    if (rewritten.length > 0) {
      const now = parseSaved(await this.#tools.save(family));
      for (const [key, form] of shownForms(rewritten, now)) shown.set(key, form);
    }
    forgetForms(shown, desired.families[family]);
  }

  /** Deletes members, then destroys sets; sets that rules of third parties name stay. */
  async #collect({ sets, before, rules }: Planned, less: readonly DelOperation[]): Promise<Error | null> {
    const tried = new Set(sets.last.map(({ name }) => name));
    const stuck = new Map([...this.#stuck].filter(([name]) => !sets.held.has(name) && !tried.has(name)));
    this.#stuck = stuck;
    const { inUse, failed } = await collectSets(this.#tools.ipset, [...less, ...sets.last]);
    for (const name of [...inUse.keys(), ...(failed?.left ?? [])]) {
      const there = before.get(name);
      if (there !== undefined) stuck.set(name, { ...there, members: null });
    }
    if (failed !== null) return failed.error;
    const left = FAMILIES.flatMap((family) => rules[family].left);
    for (const [name, { message }] of inUse) left.push(`set ${name}: ${message}`);
    return left.length === 0 ? null : new Error(`not removed: ${left.join('; ')}`);
  }

  async verify(): Promise<string[]> {
    if (this.#applied === null) return [];
    // If the reading fails, the next apply starts with one.
    this.#known = null;
    this.#found = null;
    const found = await this.#read();
    const differences = compare(this.#held(this.#applied), found, { shown: this.#shown, stuck: this.#stuck });
    if (differences.length > 0) this.#found = found;
    else this.#known = this.#asApplied(found.sets);
    return differences;
  }

  /** The part of the ruleset that the kernel can hold. */
  #held(wanted: IptablesRuleset): IptablesRuleset {
    const families = (family: Family) => (this.#lacking.has(family) ? [] : wanted.families[family]);
    return { ...wanted, families: { 4: families(4), 6: families(6) } };
  }

  /** The same members as the objects of stage 5, so that identical objects need no comparison. */
  #asApplied(found: IptablesState['sets']): IptablesState['sets'] {
    const sets = [...(this.#applied?.sets ?? [])].flatMap(([name, set]) => {
      const there = found.get(name);
      return there === undefined ? [] : [[name, toKernelSet(set, there)] as const];
    });
    return new Map(sets);
  }

  async holdsRules(): Promise<boolean> {
    for (const family of FAMILIES) {
      const tables = parseSaved(await this.#tools.save(family));
      for (const { leads, chains } of Object.values(tables)) {
        if (leads.some(({ isBuiltin, to }) => isBuiltin && (chains.get(to)?.length ?? 0) > 0)) return true;
      }
    }
    return false;
  }
}

interface Planned {
  readonly sets: SetChange;
  /** The sets before the change. */
  readonly before: IptablesState['sets'];
  readonly rules: Readonly<Record<Family, PlannedRules>>;
}

interface PlannedRules extends RuleChange {
  /** The rules before the change. */
  readonly saved: SavedTables;
}

const NO_CHANGE: PlannedRules = {
  text: '',
  rules: new Map(),
  commits: new Map(),
  rewritten: [],
  left: [],
  // The family was not read and stays as it is.
  saved: parseSaved(''),
};

/** Whether NO_KERNEL_SUPPORT is about the table filter: nat alone may be missing. */
function lacksFilter(error: unknown): error is IptablesError {
  return (
    error instanceof IptablesError && error.code === 'NO_KERNEL_SUPPORT' && /[`']filter'/.test(error.stderr)
  );
}

function sameTables(a: readonly IptablesTable[], b: readonly IptablesTable[]): boolean {
  return a === b || (a.length === b.length && a.every((table, i) => sameTable(table, b[i])));
}

function sameTable(a: IptablesTable, b: IptablesTable | undefined): boolean {
  if (a === b) return true;
  if (b === undefined || a.name !== b.name || a.chains.size !== b.chains.size) return false;
  const hasJumps =
    a.jumps.length === b.jumps.length &&
    a.jumps.every(({ from, to }, i) => from === b.jumps[i]?.from && to === b.jumps[i]?.to);
  return hasJumps && [...b.chains.values()].every((chain) => sameText(a.chains.get(chain.name), chain));
}

function toChange({ sets, rules }: Planned): Change {
  const texts = FAMILIES.map((family) => rules[family].text);
  const operations = [...sets.first, ...sets.less, ...sets.last];
  const changesStructure = texts.some((text) => text !== '') || operations.some(isStructural);
  return {
    isEmpty: operations.length === 0 && !changesStructure,
    changesStructure,
    text: () => changeText(sets, rules),
  };
}

/** A set that is filled under another name and swapped changes only its members. */
function isStructural(operation: Operation): boolean {
  if (operation.op === 'create') return !operation.set.name.startsWith(TEMPORARY_PREFIX);
  return operation.op === 'destroy' && !operation.name.startsWith(TEMPORARY_PREFIX);
}

function changeText(sets: SetChange, rules: Planned['rules']): string {
  const parts = [
    ['ipset restore', toRestoreText(sets.first)],
    ['iptables-restore --noflush', rules[4].text],
    ['ip6tables-restore --noflush', rules[6].text],
    ['ipset restore', toRestoreText([...sets.less, ...sets.last])],
    ['not held', sets.lacking.map((line) => `${line}\n`).join('')],
  ] as const;
  return parts.flatMap(([title, text]) => (text === '' ? [] : [`# ${title}\n${text}`])).join('');
}
