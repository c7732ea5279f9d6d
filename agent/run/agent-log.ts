import { NftError } from 'nftables-napi';
import type { CompiledRule } from '../../apis/compiled.ts';
import type { Log } from '../../lib/process/log.ts';
import { Refusal } from '../apply/dataplane.ts';
import type { Enforced } from '../apply/enforcer.ts';
import { policyKey } from '../apply/plan/substitute.ts';
import { RenderError } from '../render/rule-renderer.ts';

/** So many differences of a drift are named. */
const SHOWN = 20;

/** What the agent says: each policy it enforces, changes or leaves out, once, when that happens. */
export function agentLog(node: string, log: Log) {
  let isFirst = true;
  let enforced = new Map<string, readonly CompiledRule[]>();
  let rules: readonly CompiledRule[] = [];
  let warned: string | null = null;
  let revision = 0;
  return {
    enforced({ state, failed, unswept, warning = null, change, milliseconds }: Enforced): void {
      revision++;
      const where = { node, revision, stage: 'apply' };
      const policies = state.rules === rules ? enforced : Map.groupBy(state.rules, policyKey);
      for (const [policy, now] of policies) {
        const before = enforced.get(policy);
        if (before === undefined) log.info('policy enforced', { ...where, policy, rules: now.length });
        else if (before !== now && !sameRules(before, now)) {
          log.info('policy changed', { ...where, policy, rules: now.length, rulesBefore: before.length });
        }
      }
      for (const policy of enforced.keys()) {
        if (!policies.has(policy)) log.info('policy no longer enforced', { ...where, policy });
      }
      for (const [policy, error] of failed) {
        const kept = policies.has(policy) ? 'its last good version stays' : 'it is left out';
        log.error(`policy cannot be applied; ${kept}`, { ...where, policy, ...errorFields(error) });
      }
      if (unswept !== null) {
        log.warn('all is enforced, but what is left over could not be removed; trying again', {
          ...where,
          error: unswept.message,
        });
      }
      if (warning !== null && warning !== warned) log.warn(warning, where);
      warned = warning;
      enforced = policies;
      rules = state.rules;
      // What an earlier run left may be all that is wanted: the start is told all the same.
      const changed = isFirst || !change.isEmpty;
      isFirst = false;
      log.log(changed ? 'info' : 'debug', changed ? 'enforced' : 'nothing to change', {
        ...where,
        policies: policies.size,
        rules: state.rules.length,
        addressSets: state.addressSets.size,
        milliseconds: Math.round(milliseconds * 10) / 10,
      });
      if (log.isDebugEnabled()) log.debug('transaction', { ...where, text: change.text() });
    },
    failed(error: Error, retryIn: number): void {
      log.error(`cannot apply; what was enforced stays enforced, next try in ${retryIn / 1000} s`, {
        node,
        stage: 'apply',
        ...errorFields(error),
      });
    },
    /** A mistake of ours in a stage before: the next change of the objects is the next try. */
    internalError(error: unknown): void {
      log.error('internal error; what was enforced stays enforced. Please report it', {
        node,
        ...errorFields(error),
      });
    },
    unrecorded(error: Error): void {
      const what = 'all is enforced, nothing is recorded, no names are learnt from DNS answers';
      log.error(`this kernel has no NFLOG (nfnetlink_log, nft_log): ${what}`, {
        node,
        stage: 'apply',
        error: error.message,
      });
    },
    drifted(differences: readonly string[]): void {
      log.warn('what is in force was changed by somebody else; repairing it', {
        node,
        stage: 'apply',
        differences: differences.slice(0, SHOWN),
        count: differences.length,
      });
    },
  };
}

/** Rules of a policy that wasn't edited are the same objects. */
function sameRules(a: readonly CompiledRule[], b: readonly CompiledRule[]): boolean {
  return (
    a.length === b.length &&
    a.every((rule, i) => rule === b[i] || JSON.stringify(rule) === JSON.stringify(b[i]))
  );
}

/** What the kernel or nft refused says itself; anything else is a mistake of ours, and its place is needed. */
function errorFields(error: unknown): object {
  if (!(error instanceof Error)) return { error: String(error) };
  const isKnown = error instanceof Refusal || error instanceof RenderError || error instanceof NftError;
  if (isKnown) return { error: error.message };
  return { error: `internal error: ${error.message}`, stack: error.stack };
}
