import { IpsetError } from 'ipset-ts';
import { NftError } from 'nftables-napi';
import type { CompiledRule, NodeState } from '../../apis/compiled.ts';
import type { Log } from '../../lib/process/log.ts';
import { FamilyError, RefusedError } from '../apply/dataplane.ts';
import type { Enforced } from '../apply/enforcer.ts';
import { policyKey } from '../apply/envelope.ts';
import { IptablesError } from '../apply/iptables/tools.ts';
import { RenderError } from '../render/rule-renderer.ts';

const KNOWN = [RefusedError, RenderError, NftError, IptablesError, IpsetError, FamilyError];

/** The most differences of a drift that are logged. */
const SHOWN = 20;

type Policies = ReadonlyMap<string, readonly CompiledRule[]>;

/** The agent's log: one line for each policy when it is enforced, changed or left out. */
export class AgentLog {
  readonly #node: string;
  readonly #log: Log;
  #isFirst = true;
  /** The policies in force; `#rules` has their rules in one list. */
  #policies: Policies = new Map();
  #rules: readonly CompiledRule[] = [];
  #deadline: NodeState['deadline'];
  #warned: string | null = null;
  /** The last apply failed, and that was logged. */
  #hasFailed = false;
  /** The failure of one family that was logged last, for as long as it lasts. */
  #failedFamily: string | null = null;
  #revision = 0;

  constructor(node: string, log: Log) {
    this.#node = node;
    this.#log = log;
  }

  enforced(result: Enforced): void {
    const { resolved: state, failed, leftBehind, warning = null, failedFamily = null } = result;
    const { change, milliseconds } = result;
    this.#revision++;
    const where = { node: this.#node, revision: this.#revision, stage: 'apply' };
    const policies = state.rules === this.#rules ? this.#policies : Map.groupBy(state.rules, policyKey);
    this.#sayPolicies(policies, where);
    for (const [policy, error] of failed) {
      const kept = policies.has(policy) ? 'its previous version stays in force' : 'it is not in force';
      this.#log.error(`policy cannot be applied; ${kept}`, { ...where, policy, ...errorFields(error) });
    }
    if (leftBehind !== null) {
      this.#log.warn('all rules are in force, but unused chains or sets could not be removed; retrying', {
        ...where,
        error: leftBehind.message,
      });
    }
    if (warning !== null && warning !== this.#warned) this.#log.warn(warning, where);
    this.#warned = warning;
    const isMended = this.#hasFailed && failedFamily === null;
    if (failedFamily === null) {
      this.#hasFailed = false;
      this.#failedFamily = null;
    }
    // The rules are confirmed, or other probes count in their trial.
    const isSame = state.rules === this.#rules && state.deadline !== this.#deadline;
    this.#policies = policies;
    this.#rules = state.rules;
    this.#deadline = state.deadline;
    // An earlier run may have left exactly the desired rules, and an apply that failed may not have
    // been needed: the first apply, and the one after an error, are logged at info all the same.
    const changed = this.#isFirst || isMended || (!change.isEmpty && !isSame);
    this.#isFirst = false;
    this.#log.log(
      changed ? 'info' : 'debug',
      changed ? 'enforced' : isSame ? 'another deadline' : 'nothing to change',
      {
        ...where,
        policies: policies.size,
        rules: state.rules.length,
        addressSets: state.addressSets.size,
        milliseconds: Math.round(milliseconds * 10) / 10,
      },
    );
    if (this.#log.isDebugEnabled()) this.#log.debug('transaction', { ...where, text: change.text() });
  }

  failed(error: Error, retryIn: number): void {
    const where = { node: this.#node, stage: 'apply' };
    const again = `retrying in ${retryIn / 1000} s`;
    this.#hasFailed = true;
    if (!(error instanceof FamilyError)) {
      const message = `cannot apply the rules; the previous rules stay in force, ${again}`;
      this.#log.error(message, { ...where, ...errorFields(error) });
      return;
    }
    const { family, cause } = error;
    const level = error.message === this.#failedFamily ? 'debug' : 'error';
    this.#failedFamily = error.message;
    this.#log.log(
      level,
      `cannot apply the rules of IPv${family}; those of IPv${family === 4 ? 6 : 4} are in force, ${again}`,
      { ...where, ...errorFields(cause) },
    );
  }

  /** Logs a bug in an earlier stage. The next change of the objects is the next attempt. */
  internalError(error: unknown): void {
    this.#log.error('internal error; the rules in force stay. Please report it', {
      node: this.#node,
      ...errorFields(error),
    });
  }

  unrecorded(error: Error): void {
    const what = 'all rules are in force, but nothing is recorded and no names are learnt from DNS answers';
    this.#log.error(`this kernel has no NFLOG (nfnetlink_log, nft_log): ${what}`, {
      node: this.#node,
      stage: 'apply',
      error: error.message,
    });
  }

  drifted(differences: readonly string[]): void {
    this.#log.warn('a third party changed the rules in force; repairing them', {
      node: this.#node,
      stage: 'apply',
      differences: differences.slice(0, SHOWN),
      count: differences.length,
    });
  }

  #sayPolicies(now: Policies, where: object): void {
    for (const [policy, rules] of now) {
      const before = this.#policies.get(policy);
      if (before === undefined) this.#log.info('policy enforced', { ...where, policy, rules: rules.length });
      else if (before !== rules && !sameRules(before, rules)) {
        this.#log.info('policy changed', {
          ...where,
          policy,
          rules: rules.length,
          rulesBefore: before.length,
        });
      }
    }
    for (const policy of this.#policies.keys()) {
      if (!now.has(policy)) this.#log.info('policy no longer enforced', { ...where, policy });
    }
  }
}

/** Compares rules by identity first: rules of a policy that wasn't edited are the same objects. */
function sameRules(a: readonly CompiledRule[], b: readonly CompiledRule[]): boolean {
  return (
    a.length === b.length &&
    a.every((rule, i) => rule === b[i] || JSON.stringify(rule) === JSON.stringify(b[i]))
  );
}

/**
 * Errors of the kernel, of its tools or of the renderer are explained by their message. Any other
 * error is a bug of nodewall, so its stack is logged.
 */
function errorFields(error: unknown): object {
  if (!(error instanceof Error)) return { error: String(error) };
  if (KNOWN.some((known) => error instanceof known)) return { error: error.message };
  return { error: `internal error: ${error.message}`, stack: error.stack };
}
