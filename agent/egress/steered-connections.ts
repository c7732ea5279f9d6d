import { networkInterfaces } from 'node:os';
import { CONNTRACK_STATUS, type Conntrack, type ConntrackEntry, TCP_ENDED } from 'nftables-napi';
import type { NodeState } from '../../apis/compiled.ts';
import type { NodeEgress } from '../../apis/egress/node-egress.ts';
import { formatAddress } from '../../lib/net/address.ts';
import { hasAddress } from '../../lib/net/member-set.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import { addressOfBytes } from '../connections/connection-flows.ts';
import { type EndSummary, endedOf, type ResetConnection } from '../connections/end-connections.ts';
import type { ExtendedConnections, ExtendedPass } from '../extension/agent-extension.ts';
import { protocolName } from '../record/record.ts';
import { loadAddon } from '../run/with-kernel.ts';
import { ClientWaker } from './client-waker.ts';
import { type PolicyOfConnection, policyOfConnection } from './record/egress-record.ts';
import { ENDED, MARK_MASK, slotMark, takeMark } from './render/marks.ts';

interface SteeredOptions {
  readonly options: { readonly node: string };
  readonly log: Log;
  readonly clock: Clock;
}

/** Differences of the kernel that may have let pods leave without their gateways. */
const EGRESS_RULES = /^(table|(chain|set|map) egress-)/;

/** Connections of pods that end because they would leave by another way, or by none. */
export class SteeredConnections implements ExtendedConnections {
  readonly #options: SteeredOptions;
  readonly #inTurn: <T>(pass: () => Promise<T>) => Promise<T>;
  readonly #history = new EgressHistory();
  readonly #waker: ClientWaker;
  readonly #closing = new AbortController();
  #isInForce = false;
  /** The rules were away until the state that comes into force next. */
  #isRepairing = false;

  constructor(options: SteeredOptions, inTurn: <T>(pass: () => Promise<T>) => Promise<T>) {
    this.#options = options;
    this.#inTurn = inTurn;
    this.#waker = new ClientWaker(options);
  }

  enforced({ egress }: NodeState): boolean {
    this.#isInForce = egress !== undefined;
    const decides = egress !== undefined && this.#history.remember(egress);
    if (this.#isRepairing && egress !== undefined) void this.#endPassed();
    this.#isRepairing = false;
    return decides && this.#history.rechecks();
  }

  drifted(differences: readonly string[]): void {
    if (differences.some((one) => EGRESS_RULES.test(one))) this.#isRepairing = true;
  }

  rechecks(): boolean {
    return this.#history.rechecks();
  }

  /** Ends what began before policies with `established: Recheck`, by another way. */
  async recheck(signal: AbortSignal): Promise<void> {
    const { options, log } = this.#options;
    const { ended, error } = await this.#reset({ policy: RECHECKED, isDryRun: false, signal, ended() {} });
    if (ended > 0)
      log.info('ended connections that began before their egress policies', { node: options.node, ended });
    if (error !== null) throw error;
  }

  async flush(pass: ExtendedPass): Promise<EndSummary | null> {
    return this.#isInForce ? await this.#reset({ ...pass, policy: null }) : null;
  }

  policies(): ReadonlySet<string> {
    return this.#history.policies();
  }

  reset(policy: string, pass: ExtendedPass): Promise<EndSummary> {
    return this.#reset({ ...pass, policy });
  }

  close(): void {
    this.#closing.abort();
    this.#waker.close();
  }

  async #reset(options: ExtendedPass & Pick<ResetOptions, 'policy'>): Promise<EndSummary> {
    const { Conntrack } = await loadAddon();
    const conntrack = new Conntrack();
    const interfaces = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
    const own = new Set(interfaces.map(({ address }) => address));
    try {
      const parts = { history: this.#history, conntrack, waker: this.#waker, own };
      return await this.#inTurn(() => resetConnections({ ...parts, ...options }));
    } finally {
      await conntrack.close();
    }
  }

  /** Ends what pods began without their gateways while rules were away. */
  async #endPassed(): Promise<void> {
    const { options, log } = this.#options;
    const { node } = options;
    const { signal } = this.#closing;
    try {
      const passed = await this.#reset({ policy: null, isDryRun: false, signal, ended() {} });
      if (passed.error !== null) throw passed.error;
      if (passed.ended === 0) return;
      log.warn('ended connections that pods began without their egress gateways while rules were away', {
        node,
        ended: passed.ended,
      });
    } catch (error) {
      if (signal.aborted) return;
      log.error('cannot end connections that pods began without their egress gateways; run nodewall flush', {
        node,
        error: (error as Error).message,
      });
    }
  }
}

/** States that are remembered: edits of policies since a connection began. */
const REMEMBERED = 16;
const TCP = 6;

/**
 * This node's recent ways for its pods: a connection keeps what it got, also of a deleted policy.
 */
export class EgressHistory {
  /** The newest first. */
  #states: readonly NodeEgress[] = [];

  /** A state is in force; returns whether it decides otherwise than the one before. */
  remember(egress: NodeEgress): boolean {
    const [last] = this.#states;
    const isSame =
      last?.sources === egress.sources &&
      last.subnets === egress.subnets &&
      last.classes === egress.classes &&
      last.outcomes === egress.outcomes;
    const kept = isSame ? this.#states.slice(1) : this.#states.slice(0, REMEMBERED - 1);
    this.#states = [egress, ...kept];
    return !isSame;
  }

  /** Whether policies of the state in force end what began before them. */
  rechecks(): boolean {
    const outcomes = this.#states[0]?.outcomes.values() ?? [];
    return [...outcomes].some(({ established }) => established === 'Recheck');
  }

  /** `namespace/name`, or the name of a ClusterEgressPolicy, of all policies of these states. */
  policies(): ReadonlySet<string> {
    const outcomes = this.#states.flatMap(({ outcomes: all }) => [...all.values()]);
    return new Set(outcomes.flatMap(({ policy }) => (policy === null ? [] : nameOf({ policy }))));
  }

  /**
   * Whether in one of these states the policy steers such connections by the mark that this one
   * has. Where several policies did, one after another, it is a connection of each.
   */
  hasSteered(policy: string, { mark, original, reply }: ConntrackEntry): boolean {
    const bits = mark & MARK_MASK;
    if (bits === 0 || bits === ENDED) return false;
    const [source, destination] = [addressOfBytes(original.source), addressOfBytes(reply.source)];
    return this.#states.some((egress) => {
      const found = policyOfConnection(egress, source, destination);
      return found !== null && nameOf(found) === policy && marksOf(found.action, egress).includes(bits);
    });
  }

  /**
   * Whether the policy that decides about such connections now asks to end this one: it began
   * without a gateway, or by that of another policy. Of a way that nobody knows any more it may be
   * its own, from before a restart.
   */
  isOutdated(entry: ConntrackEntry): boolean {
    const { mark, original, reply } = entry;
    const [egress] = this.#states;
    if (egress === undefined) return false;
    const destination = addressOfBytes(reply.source);
    const found = policyOfConnection(egress, addressOfBytes(original.source), destination);
    if (found?.rechecks !== true || hasAddress(egress.inside, formatAddress(destination))) return false;
    if ((mark & MARK_MASK) === 0) return this.hasPassed(null, entry);
    const own = nameOf(found);
    if (this.hasSteered(own, entry)) return false;
    return [...this.policies()].some((name) => name !== own && this.hasSteered(name, entry));
  }

  /**
   * Whether it is a connection of a pod that this node serves as a gateway, and began while rules
   * were away: it left by whatever address, and the rules drop what follows.
   */
  hasArrived({ mark, original, reply }: ConntrackEntry): boolean {
    const [egress] = this.#states;
    if (egress === undefined || (mark & MARK_MASK) !== 0) return false;
    if (!egress.arrivals.has(formatAddress(addressOfBytes(original.source)))) return false;
    return !hasAddress(egress.inside, formatAddress(addressOfBytes(reply.source)));
  }

  /**
   * Whether the connection began without a gateway, and would have one, or none at all, by the
   * state in force: before its policy, or while rules were away. `policy` null: of any that does
   * not let connections leave directly where no gateway is ready.
   */
  hasPassed(policy: string | null, { mark, original, reply }: ConntrackEntry): boolean {
    const [egress] = this.#states;
    if (egress === undefined || (mark & MARK_MASK) !== 0) return false;
    const destination = addressOfBytes(reply.source);
    const found = policyOfConnection(egress, addressOfBytes(original.source), destination);
    if (found === null || hasAddress(egress.inside, formatAddress(destination))) return false;
    const { action } = found;
    if (action.kind === 'pass' || action.kind === 'direct') return false;
    if (policy !== null) return nameOf(found) === policy;
    return action.kind !== 'slots' || action.otherwise !== 'Direct';
  }
}

function nameOf({ policy: { namespace, name } }: Pick<PolicyOfConnection, 'policy'>): string {
  return namespace === '' ? name : `${namespace}/${name}`;
}

/** The marks that connections of an action get. */
function marksOf(action: PolicyOfConnection['action'], { slots }: NodeEgress): number[] {
  switch (action.kind) {
    case 'take':
      return [takeMark(action.take)];
    case 'slots':
      return [...action.slots, ...(action.reserve ?? [])].map((number) => {
        const take = slots.get(number)?.take ?? 0;
        return take === 0 ? slotMark(number) : takeMark(take);
      });
    case 'pass':
    case 'direct':
    case 'drop':
      return [];
  }
}

const RECHECKED = Symbol('rechecked');

interface ResetOptions {
  readonly history: EgressHistory;
  readonly conntrack: Pick<Conntrack, 'entries' | 'delete' | 'mark'>;
  readonly waker: Pick<ClientWaker, 'wake'>;
  /**
   * As in EgressHistory.policies; null: all that began without a gateway. RECHECKED: what
   * policies end by themselves.
   */
  readonly policy: string | null | typeof RECHECKED;
  /** Addresses of this machine: what leads there does not leave it. */
  readonly own: ReadonlySet<string>;
  readonly isDryRun: boolean;
  /** As in ExtendedPass. */
  readonly only?: ExtendedPass['only'];
  readonly signal: AbortSignal;
  readonly ended: (connection: ResetConnection) => void | Promise<void>;
}

/**
 * Ends the established connections of a policy that pods of this node began, by its gateway or
 * before it was there. The next packet of a
 * TCP connection is answered with a reset, and its client is made to send one; of other protocols,
 * it is the first one of a new connection, about which the policies in force decide.
 */
export async function resetConnections(options: ResetOptions): Promise<EndSummary> {
  const { history, conntrack, policy, own: ownAddresses, isDryRun, signal, ended } = options;
  const { only = () => true } = options;
  const leaves = ({ reply }: ConntrackEntry): boolean =>
    !ownAddresses.has(formatAddress(addressOfBytes(reply.source)));
  const isMeant = (entry: ConntrackEntry): boolean => {
    if (policy === RECHECKED) return history.isOutdated(entry) && leaves(entry);
    if (policy !== null && history.hasSteered(policy, entry)) return true;
    const hasPassed = history.hasPassed(policy, entry) || (policy === null && history.hasArrived(entry));
    return hasPassed && leaves(entry);
  };
  const summary: EndSummary = { examined: 0, ended: 0, failed: 0, error: null };
  for await (const entries of conntrack.entries()) {
    signal.throwIfAborted();
    summary.examined += entries.length;
    const own = entries.filter((entry) => isOpen(entry) && isMeant(entry) && only(toConnection(entry)));
    for (const entry of isDryRun ? own : await endAll(own, options, summary)) {
      summary.ended++;
      await ended(toConnection(entry));
    }
  }
  return summary;
}

function isOpen({ status, tcpState }: ConntrackEntry): boolean {
  return (status & (CONNTRACK_STATUS.expected | CONNTRACK_STATUS.dying)) === 0 && !TCP_ENDED.has(tcpState);
}

async function endAll(
  own: readonly ConntrackEntry[],
  { history, conntrack, waker }: ResetOptions,
  summary: EndSummary,
): Promise<readonly ConntrackEntry[]> {
  // A gateway resets nothing: the pod's node does, or the server to which it goes on.
  const isReset = (entry: ConntrackEntry): boolean => entry.protocol === TCP && !history.hasArrived(entry);
  const tcp = own.filter(isReset);
  const others = own.filter((entry) => !isReset(entry));
  const marked = await conntrack.mark(tcp, ENDED, MARK_MASK);
  waker.wake(tcp.filter((_, i) => marked[i] === null));
  const results = [...marked, ...(await conntrack.delete(others))];
  return endedOf([...tcp, ...others], results, summary);
}

function toConnection({ protocol, original, reply, mark }: ConntrackEntry): ResetConnection {
  return {
    protocol: protocolName(protocol),
    src: formatAddress(addressOfBytes(original.source)),
    srcPort: original.sourcePort,
    dst: formatAddress(addressOfBytes(reply.source)),
    dstPort: reply.sourcePort,
    steered: (mark & MARK_MASK) !== 0,
  };
}
