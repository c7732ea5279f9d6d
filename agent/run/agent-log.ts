import { IpsetError } from 'ipset-ts';
import { NftError } from 'nftables-napi';
import type { CompiledRule, NodeState } from '../../apis/compiled.ts';
import type { WallClock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import type { Enforced } from '../apply/enforcer.ts';
import { policyKey } from '../apply/envelope.ts';
import { IptablesError } from '../apply/iptables/tools.ts';
import { FamilyError, RefusedError } from '../apply/reconciler-interface.ts';
import { RenderError } from '../render/rule-chain.ts';

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

/** Interval at which a continuing outage of the controller is logged again (milliseconds). */
const AGAIN = 300_000;

/** The value while no folding error has been logged. */
const FOLLOWED = { reason: '', said: 0 };

interface ContactOptions {
  readonly node: string;
  readonly controller: string;
  readonly log: Log;
  readonly clock: WallClock;
}

/** The log of the connection to the controller: when it is lost and restored, not each attempt. */
export class ContactLog {
  readonly #log: Log;
  readonly #clock: WallClock;
  readonly #fields: object;
  /** HOST:PORT of the connection. */
  #address = '';
  /** `since` for people; `at` is the clock's time then: the wall clock may have been set since. */
  #away: {
    readonly since: Date;
    readonly at: number;
    readonly reason: string;
    readonly said: number;
  } | null = null;
  #unfollowed = FOLLOWED;
  #isFollowed = false;
  /** The error of the last report; empty: the controller accepted it. */
  #unreported = '';

  constructor({ node, controller, log, clock }: ContactOptions) {
    this.#log = log;
    this.#clock = clock;
    this.#fields = { node, stage: 'receive', controller };
  }

  /** ISO 8601; null: the controller is connected. */
  awaySince(): string | null {
    return this.#away?.since.toISOString() ?? null;
  }

  /** @param address HOST:PORT of the other end */
  connected(address: string): void {
    this.#address = address;
    this.#log.debug('connected', { ...this.#fields, address });
  }

  /** The view is complete: only now the connection counts as restored. */
  bookmark(revision: string): void {
    const fields = { ...this.#fields, address: this.#address, revision };
    if (this.#away !== null) {
      const seconds = Math.round((this.#clock.now() - this.#away.at) / 1000);
      this.#log.info('the controller answers again', { ...fields, seconds });
    } else if (!this.#isFollowed) this.#log.info('following the controller', fields);
    if (this.#unfollowed !== FOLLOWED) this.#log.info("applying the controller's view again", fields);
    this.#away = null;
    this.#unfollowed = FOLLOWED;
    this.#isFollowed = true;
  }

  /** The messages can't be applied to the current state; the agent requests them again. */
  refolding(error: Error): void {
    this.#log.warn('the messages from the controller do not match the view; requesting a full view', {
      ...this.#fields,
      error: error.message,
    });
  }

  /** The controller answers, but even its whole view can't be folded. */
  unfollowable(error: Error, retryIn: number): void {
    const now = this.#clock.now();
    const { reason, said } = this.#unfollowed;
    const isNews = error.message !== reason || now - said >= AGAIN;
    if (isNews) this.#unfollowed = { reason: error.message, said: now };
    this.#log.log(
      isNews ? 'error' : 'debug',
      "cannot apply the controller's view; the rules in force stay. Use one version for controller and agent; restart the controller, then this agent; please report it",
      { ...this.#fields, error: error.message, retryIn: Math.round(retryIn) },
    );
  }

  disconnected(error: Error, retryIn: number): void {
    const now = this.#clock.now();
    const before = this.#away;
    const isNews = before === null || before.reason !== error.message || now - before.said >= AGAIN;
    const since = before?.since ?? this.#clock.date();
    const fields = {
      ...this.#fields,
      error: error.message,
      since: since.toISOString(),
      retryIn: Math.round(retryIn),
    };
    if (!isNews) return void this.#log.debug('the controller still does not answer', fields);
    this.#away = { since, at: before?.at ?? now, reason: error.message, said: now };
    this.#log.warn('the controller does not answer; the rules in force stay', fields);
  }

  /** Null: the controller accepted the report. */
  reported(error: Error | null): void {
    const reason = error?.message ?? '';
    const isThere = this.#away === null;
    // While the connection is lost, a failed report is no news.
    const level = isThere && reason !== this.#unreported ? 'warn' : 'debug';
    if (error !== null)
      this.#log.log(level, 'the controller did not accept the report of this node; retrying', {
        ...this.#fields,
        error: reason,
      });
    else if (this.#unreported !== '') this.#log.info('the controller accepts reports again', this.#fields);
    if (isThere) this.#unreported = reason;
  }
}
