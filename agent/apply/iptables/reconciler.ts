import { type DelOperation, IpsetError } from 'ipset-ts';
import { FAMILIES, type Family } from '../../../lib/net/address.ts';
import { errorMessage } from '../../../lib/sharing/error.ts';
import type { IptablesRuleset } from '../../render/iptables/tables.ts';
import {
  type Applied,
  type DataplaneChange,
  FamilyError,
  type Reconciler,
  RefusedError,
} from '../reconciler-interface.ts';
import { readSets, toKernelSet } from './kernel-set.ts';
import {
  blame,
  type IptablesState,
  iptablesDifferences,
  NO_CHANGE,
  type Planned,
  type PlannedRules,
  toChange,
} from './planned.ts';
import { collectSets } from './remove.ts';
import { forgetForms, type RuleChange, ruleChange, sameTables, shownForms } from './rule-change.ts';
import { asTables, parseSaved, setsNamed } from './saved.ts';
import { setChange } from './set-change.ts';
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
  /** Families that the kernel lacks, and its message: no rules are applied until it has them. */
  readonly #lacking = new Map<Family, string>();
  /** Families that the kernel has, and whose command fails. The other's rules are applied. */
  readonly #broken = new Map<Family, Error>();
  /** Families that had rules of ours when they were read or written last. */
  readonly #holding = new Set<Family>();
  /** One family alone was changed: until an apply goes through, nothing is compared. */
  #isHalfDone = false;
  /** The broken families whose rules cannot even be read. */
  readonly #unreadable = new Set<Family>();
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
  async plan(desired: IptablesRuleset): Promise<DataplaneChange> {
    return toChange(await this.#plan(desired));
  }

  /**
   * Throws RefusedError if a rule is refused, IptablesError or IpsetError for all other failures.
   * None if the rules of one family are in force: `failedFamily` has the other's failure.
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
    if (errors.size > 0) {
      const failedFamily = this.#halfDone(errors, rules);
      if (failedFamily === null) throw await this.#undone(planned, errors);
      await this.#revoke(planned, (family) => !errors.has(family));
      // Desired sets stay, also those that no rule names yet: the deadline of a trial is in some.
      const named = setsNamed(rules[failedFamily.family].saved);
      await this.#destroy(sets.last.map(({ name }) => name).filter((name) => !named.has(name)));
      this.#applied = desired;
      return { change: toChange(planned), leftBehind: null, failedFamily, ...spent(started, asked) };
    }
    let enforced = performance.now();
    this.#applied = desired;
    this.#isHalfDone = false;
    const leftBehind = await this.#collect(planned, less);
    if (changesRules && sets.less.length > 0) enforced = performance.now();
    for (const family of FAMILIES) await this.#learnForms(family, rules[family], desired);
    this.#known = sets.held;
    return {
      change: toChange(planned),
      leftBehind,
      warning: this.#warning(),
      failedFamily: this.#failedFamily(),
      ...spent(started, asked, enforced),
    };
  }

  async #plan(desired: IptablesRuleset): Promise<Planned> {
    if (this.#known === null) this.#found ??= await this.#read();
    const [rules4, rules6] = await Promise.all([this.#ruleChange(4, desired), this.#ruleChange(6, desired)]);
    const rules = { 4: rules4, 6: rules6 };
    const [broken] = this.#broken.values();
    if (broken !== undefined && this.#unreadable.size + this.#lacking.size === FAMILIES.length) throw broken;
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
      const isThere = tables !== null && !this.#broken.has(family) && sameTables(tables, wanted);
      if (isThere) return NO_CHANGE;
      saved = parseSaved(await this.#save(family));
    }
    if (this.#unreadable.has(family)) return NO_CHANGE;
    if (saved.filter.chains.size === 0) this.#holding.delete(family);
    else this.#holding.add(family);
    return { ...ruleChange(saved, wanted, { tables, shown: this.#shown[family] }), saved };
  }

  async #read(): Promise<IptablesState> {
    const [rules4, rules6, sets] = await Promise.all([
      this.#save(4),
      this.#save(6),
      readSets(this.#tools.ipset),
    ]);
    for (const [family, saved] of [[4, rules4] as const, [6, rules6] as const])
      if (this.#tools.has?.(family) === true || /^\*filter$/m.test(saved)) this.#lacking.delete(family);
    this.#stuck = new Map([...this.#stuck].filter(([name]) => sets.has(name)));
    return { families: { 4: parseSaved(rules4), 6: parseSaved(rules6) }, sets };
  }

  /** The rules of a family; none if its command does not work. Failures that pass are thrown. */
  async #save(family: Family): Promise<string> {
    try {
      const text = await this.#tools.save(family);
      this.#unreadable.delete(family);
      return text;
    } catch (error) {
      if (!(error instanceof IptablesError) || !LASTING.has(error.code)) throw error;
      this.#broken.set(family, error);
      this.#unreadable.add(family);
      return '';
    }
  }

  #failedFamily(): FamilyError | null {
    const [first] = this.#broken;
    return first === undefined ? null : new FamilyError(...first, { isBare: !this.#holding.has(first[0]) });
  }

  /**
   * Where the rules of one family are as desired, and the command of the other failed: the rules of
   * both are as they are until the next apply, which reads them. Null: nothing changed, or it is to
   * be put back. If no rule was to change in the first, only a failure that lasts counts.
   */
  #halfDone(errors: ReadonlyMap<Family, unknown>, rules: Planned['rules']): FamilyError | null {
    const [[failed, error] = []] = errors;
    const other = FAMILIES.find((family) => !errors.has(family));
    if (failed === undefined || other === undefined || !(error instanceof IptablesError)) return null;
    if (this.#lacking.has(other) || this.#unreadable.has(other)) return null;
    const isChanged = rules[other].text !== '';
    const lasts = this.#broken.has(failed);
    // At the start it is not known whether the failure lasts: the next attempt tells.
    if (isChanged || lasts || this.#applied === null) this.#broken.set(failed, error);
    if (!isChanged && !lasts) return null;
    this.#isHalfDone = true;
    return this.#failedFamily();
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
   * A kernel without IPv6 must not prevent the rules of the other family, and neither must one that
   * lacks the tables of a family that it has: that is an error all the same. If the kernel lacks
   * both, neither is applied.
   */
  #letGo(errors: Map<Family, unknown>, rules: Planned['rules']): void {
    for (const family of FAMILIES) {
      if (errors.has(family) || this.#unreadable.has(family)) continue;
      this.#broken.delete(family);
      if (rules[family].text !== '') this.#holding.add(family);
    }
    if (errors.size + this.#lacking.size + this.#unreadable.size !== 1) return;
    for (const [family, error] of errors) {
      if (!(error instanceof IptablesError) || rules[family].saved.filter.chains.size > 0) continue;
      if (error.code === 'NO_FAMILY') this.#lacking.set(family, error.message);
      else if (lacksFilter(error)) this.#broken.set(family, error);
      else continue;
      errors.delete(family);
    }
  }

  #warning(): string | null {
    const words = [...this.#lacking].map(([family, said]) => `no rule for IPv${family} is in force: ${said}`);
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
      const said = errorMessage(error);
      thrown = new Error(`${refusal?.message}; cannot restore the previous rules: ${said}`, {
        cause: refusal,
      });
    }
    await this.#revoke(planned, (family) => refusal === undefined && !errors.has(family));
    await this.#discard(planned);
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
    const less = sets.less.filter(({ set }) => families.some((one) => sets.held.get(set)?.family === one));
    // The error that is thrown matters more: members that could not be deleted are found when the
    // next apply reads.
    await this.#tools.ipset.restore(less, { exist: true }).catch(() => undefined);
  }

  /** Sets that the failed change made would be left if it is never made again. */
  async #discard({ sets, before }: Planned): Promise<void> {
    const made = sets.first.flatMap((one) => (one.op === 'create' ? one.set.name : []));
    await this.#destroy(made.filter((name) => sets.held.has(name) && !before.has(name)));
  }

  /** Those that a rule names stay, and the next reading finds them. */
  async #destroy(names: readonly string[]): Promise<void> {
    const operations = names.map((name) => ({ op: 'destroy', name }) as const);
    await collectSets(this.#tools.ipset, operations, { stuck: new Set(names) }).catch(() => undefined);
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
    const known = new Set(this.#stuck.keys());
    this.#stuck = stuck;
    const { inUse, failed } = await collectSets(this.#tools.ipset, [...less, ...sets.last], { stuck: known });
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
    if (this.#applied === null || this.#isHalfDone) return [];
    // If the reading fails, the next apply starts with one.
    this.#known = null;
    this.#found = null;
    const found = await this.#read();
    // A broken family is tried again whatever it holds.
    const rules = (family: Family) => (this.#broken.has(family) ? NO_CHANGE.saved : found.families[family]);
    const seen = { ...found, families: { 4: rules(4), 6: rules(6) } };
    const shown = { shown: this.#shown, stuck: this.#stuck };
    const differences = iptablesDifferences(this.#usable(this.#applied), seen, shown);
    if (differences.length > 0) this.#found = found;
    else this.#known = this.#asApplied(found.sets);
    return differences;
  }

  /** The part of the ruleset that the kernel can hold. */
  #usable(wanted: IptablesRuleset): IptablesRuleset {
    const families = (family: Family) =>
      this.#lacking.has(family) || this.#broken.has(family) ? [] : wanted.families[family];
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
      const tables = parseSaved(await this.#save(family));
      for (const { leads, chains } of Object.values(tables)) {
        if (leads.some(({ isBuiltin, to }) => isBuiltin && (chains.get(to)?.length ?? 0) > 0)) return true;
      }
    }
    return false;
  }
}

function spent(
  started: number,
  asked: number,
  enforced = performance.now(),
): Pick<Applied, 'enforcedAfter' | 'kernelMicroseconds'> {
  return { enforcedAfter: enforced - started, kernelMicroseconds: Math.round(1000 * (enforced - asked)) };
}

/** Whether NO_KERNEL_SUPPORT is about the table filter: nat alone may be missing. */
function lacksFilter({ code, stderr }: IptablesError): boolean {
  return code === 'NO_KERNEL_SUPPORT' && /[`']filter'/.test(stderr);
}

/** A command that fails like this fails again: the other family must not wait for it. */
const LASTING: ReadonlySet<string> = new Set(['NO_COMMAND', 'NO_KERNEL_SUPPORT', 'UNKNOWN']);
