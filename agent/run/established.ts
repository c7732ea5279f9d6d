import type { NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import { type Clock, cancellableSleep } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import { Debounce } from '../../lib/process/timers.ts';
import { present } from '../../lib/sharing/present.ts';
import { policyKey } from '../apply/envelope.ts';
import { connectionJudge, hasRecheck, mayDeny } from '../connections/connection-judge.ts';
import {
  type EndCause,
  type EndSummary,
  endConnections,
  endedRecord,
  type ResetConnection,
} from '../connections/end-connections.ts';
import type { KeepOptions, KeptSessions } from '../connections/keep-sessions.ts';
import type { Dataplanes } from '../dataplane/dataplane.ts';
import type { AgentExtension, ExtendedConnections, ExtendedPass } from '../extension/agent-extension.ts';
import type { ConnectionRecord } from '../record/record.ts';
import type { ParsedRecord } from '../record/record-filter.ts';
import type { RecordOutlet } from '../record/recorder.ts';
import type { AgentMetrics } from './agent-metrics.ts';
import { nodeFacts } from './interface-groups.ts';
import { loadAddon } from './with-kernel.ts';

/** Milliseconds after the last of several changes, and after the first. */
const TIMES = { quiet: 100, longest: 1_000 };
/**
 * After a pass, nothing is read for this many times as long as it took: passes take a tenth of a
 * CPU.
 */
const REST = 9;
const LONGEST_REST = 60_000;
/** Milliseconds until a pass that failed is tried again. */
const RETRY = 30_000;

interface EstablishedOptions {
  readonly node: string;
  readonly config: Config;
  readonly log: Log;
  readonly metrics: AgentMetrics;
  readonly clock: Clock;
  /** Opens the flow log. */
  readonly outlet: () => Promise<RecordOutlet>;
  readonly extension: Pick<AgentExtension, 'connections'> | null;
}

/** A pass over the tracked connections. */
export interface PassOptions {
  readonly cause: EndCause;
  readonly isDryRun: boolean;
  /** Whether a connection with this record may end; absent: all may. */
  readonly only?: (record: ParsedRecord) => boolean;
  readonly signal: AbortSignal;
  /** Called for each connection that was ended, or would be. */
  readonly ended?: (record: ConnectionRecord) => void | Promise<void>;
  /** The same for those that end by the rules of an extension. */
  readonly reset?: (connection: ResetConnection) => void | Promise<void>;
  readonly progress?: (so: EndSummary) => void | Promise<void>;
}

/** `nodewall egress reset`. */
export interface ResetPass extends ExtendedPass {
  /** `namespace/name`, or the name of a ClusterEgressPolicy. */
  readonly policy: string;
  readonly by: string;
}

/**
 * Ends established connections that the rules in force deny: after each change by those of policies
 * with `established: Recheck`, on command by all. One pass at a time. Failures are logged, and
 * never touch the rules.
 */
export class Established {
  readonly #options: EstablishedOptions;
  readonly #debounce: Debounce;
  readonly #rest: ReturnType<typeof cancellableSleep>;
  readonly #closing = new AbortController();
  readonly #extended: ExtendedConnections | null;
  #inForce: NodeState | null = null;
  /** Passes run one after another. */
  #passes: Promise<unknown> = Promise.resolve();
  #failure = '';

  constructor(options: EstablishedOptions) {
    this.#options = options;
    this.#extended = options.extension?.connections((pass) => this.#inTurn(pass)) ?? null;
    this.#rest = cancellableSleep((milliseconds, callback) => options.clock.after(milliseconds, callback));
    this.#debounce = new Debounce(
      async () => {
        const started = options.clock.now();
        await this.#recheck();
        const took = options.clock.now() - started;
        if (!this.#closing.signal.aborted) await this.#rest.wait(Math.min(REST * took, LONGEST_REST));
      },
      TIMES,
      options.clock,
    );
  }

  /** A state is in force. */
  enforced(state: NodeState): void {
    const before = this.#inForce;
    this.#inForce = state;
    const endsMore = this.#extended?.enforced(state) === true;
    const mayEnd = hasRecheck(state) && (before === null || mayDeny(before, state));
    if (mayEnd || endsMore) this.#debounce.trigger();
  }

  /** Somebody else changed the rules; they are put back. */
  drifted(differences: readonly string[]): void {
    this.#extended?.drifted(differences);
  }

  /** Rechecks at once. Only for an agent that ends then. */
  async now(): Promise<void> {
    if (this.#inForce !== null && (hasRecheck(this.#inForce) || this.#extended?.rechecks() === true))
      await this.#recheck();
  }

  /**
   * Ends, or lists, connections that any rule denies. Throws if no rules are in force yet, or the
   * kernel refuses.
   */
  async flush(options: PassOptions): Promise<EndSummary> {
    const summary = await this.#inTurn(() => this.#pass(options, false));
    if (summary === null) throw new Error('no rules are in force yet');
    const { isDryRun, signal, only, reset = () => {} } = options;
    const pass = { isDryRun, signal, ended: reset, ...present({ only }) };
    const passed = (await this.#extended?.flush(pass)) ?? null;
    if (passed === null) return summary;
    return {
      examined: summary.examined,
      ended: summary.ended + passed.ended,
      failed: summary.failed + passed.failed,
      error: summary.error ?? passed.error,
    };
  }

  /**
   * Ends, or lists, the connections that an egress policy steers. Throws if it steered none here.
   */
  async resetEgress({ policy, by, ...pass }: ResetPass): Promise<EndSummary> {
    const { node, log } = this.#options;
    const known = this.#extended?.policies() ?? new Set();
    if (this.#extended === null || !known.has(policy)) {
      const names = [...known].sort().slice(0, 10).join(', ');
      const others = names === '' ? 'no egress policy steers pods of this node' : `here are ${names}`;
      throw new Error(`no egress policy ${policy} has steered pods of this node: ${others}`);
    }
    const summary = await this.#extended.reset(policy, pass);
    const message = pass.isDryRun ? 'listed' : 'ended';
    log.info(`${message} the connections of an egress policy`, { node, policy, by, ended: summary.ended });
    return summary;
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#rest.wake();
    this.#extended?.close();
    await this.#debounce.close();
    await this.#passes;
  }

  async #recheck(): Promise<void> {
    const { node, log } = this.#options;
    const { signal } = this.#closing;
    try {
      if (this.#inForce !== null && hasRecheck(this.#inForce))
        await this.#inTurn(() => this.#pass({ cause: { reason: 'Recheck' }, isDryRun: false, signal }, true));
      if (this.#extended?.rechecks() === true) await this.#extended.recheck(signal);
      this.#failure = '';
    } catch (error) {
      if (signal.aborted) return;
      const { message } = error as Error;
      if (message !== this.#failure) {
        log.error(`cannot end established connections; they go on. Retrying every ${RETRY / 1000} s`, {
          node,
          error: message,
        });
      }
      this.#failure = message;
      this.#debounce.refresh(RETRY);
    }
  }

  #inTurn<T>(pass: () => Promise<T>): Promise<T> {
    const result = this.#passes.then(pass);
    this.#passes = result.catch(() => undefined); // the caller has the error
    return result;
  }

  /** Null: nothing is in force. */
  async #pass(options: PassOptions, onlyRecheck: boolean): Promise<EndSummary | null> {
    const state = this.#inForce;
    if (state === null) return null;
    const { node, config, metrics } = this.#options;
    const { cause, isDryRun, only, ended, progress } = options;
    const { Conntrack, TcpSockets } = await loadAddon();
    const judge = connectionJudge({ state, config, facts: await nodeFacts(config), onlyRecheck });
    const conntrack = new Conntrack();
    const sockets = new TcpSockets();
    const counts = new Map<string, number>();
    const log: { outlet: RecordOutlet | null } = { outlet: null };
    let summary: EndSummary | null = null;
    try {
      summary = await endConnections({
        conntrack,
        sockets,
        judge: (entry) => {
          const denial = judge(entry);
          if (denial === null || only === undefined) return denial;
          return only(endedRecord(denial, node, cause, 0)) ? denial : null;
        },
        isDryRun,
        signal: options.signal,
        ...present({ progress }),
        ended: async (denials) => {
          if (!isDryRun) log.outlet ??= await this.#options.outlet();
          for (const denial of denials) {
            const record = endedRecord(denial, node, cause, Date.now() * 1000);
            if (!isDryRun) increment(counts, policyKey(denial.rule));
            log.outlet?.write(record);
            await ended?.(record);
          }
        },
      });
      return summary;
    } finally {
      log.outlet?.close();
      await Promise.all([conntrack.close(), sockets.close()]);
      for (const [key, count] of counts) metrics.ended(key, count);
      this.#say(counts, summary, options);
    }
  }

  #say(
    counts: ReadonlyMap<string, number>,
    summary: EndSummary | null,
    { cause, isDryRun }: PassOptions,
  ): void {
    const { node, log } = this.#options;
    const { examined = null, failed = 0, error = null } = summary ?? {};
    const ended = [...counts.values()].reduce((sum, count) => sum + count, 0);
    const fields = { node, ...cause, examined };
    if (isDryRun) {
      const denied = summary?.ended ?? null;
      log.info('listed the established connections that the rules deny', { ...fields, denied });
    } else if (ended > 0 || cause.reason === 'flush') {
      const policies = Object.fromEntries(counts);
      log.info('ended the established connections that the rules deny', { ...fields, ended, policies });
    } else log.debug('the rules deny no established connection', fields);
    if (error === null) return;
    log.warn('some connections could not be ended', { node, failed, error: error.message });
  }
}

function increment(counts: Map<string, number>, key: string): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

interface OpenSessionsOptions extends Pick<KeepOptions, 'track'> {
  readonly node: string;
  readonly log: Pick<Log, 'info' | 'warn'>;
  readonly dataplanes: Pick<Dataplanes, 'others'>;
}

const JUDGED = 'the rules judge their next packets as those of new connections';

/**
 * Keeps the sessions that are open before the first rules. A failure is logged, and holds the rules
 * up no longer.
 */
export async function keepOpenSessions({ node, log, dataplanes, track }: OpenSessionsOptions): Promise<void> {
  try {
    const held = await Promise.all(dataplanes.others.map((one) => one.holdsRules().catch(() => false)));
    // The rules of another dataplane track connections already, and have judged them.
    if (held.includes(true)) return;
    say(await keep(track), node, log);
  } catch (error) {
    const { message } = error as Error;
    log.warn(`cannot keep the sessions that are open: ${JUDGED}`, { node, error: message });
  }
}

async function keep(track: KeepOptions['track']): Promise<KeptSessions> {
  const [{ Conntrack, SocketTable }, { keepSessions }] = await Promise.all([
    loadAddon(),
    import('../connections/keep-sessions.ts'),
  ]);
  const conntrack = new Conntrack();
  try {
    return await keepSessions({ sockets: new SocketTable(), conntrack, track });
  } finally {
    await conntrack.close();
  }
}

function say({ kept, failed, error }: KeptSessions, node: string, log: OpenSessionsOptions['log']): void {
  log.info('sessions that were open before the first rules go on', { node, sessions: kept });
  if (error === null) return;
  const isFull = error.code === 'ENOMEM';
  const cause = isFull ? "the kernel's table of connections is full" : 'the kernel refuses to track them';
  const next = isFull ? '; raise net.netfilter.nf_conntrack_max' : '';
  log.warn(`${failed} open sessions may hang: ${cause}, so ${JUDGED}${next}`, {
    node,
    sessions: kept,
    failed,
    error: error.message,
  });
}
