import type { NodeReport } from '../../apis/node-report.ts';
import { type ClusterObjects, NO_OBJECTS, type Node, WIREGUARD_KEY_FILE } from '../../apis/objects.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import { Debounce } from '../../lib/process/timers.ts';
import { listChange, sameItems } from '../../lib/sharing/lists.ts';
import { AcceptedAddresses, claimedText } from '../index/accepted-addresses.ts';
import { HostAddresses, MOST_REPORTED, TunnelKeys } from '../index/host-addresses.ts';
import type { NodeEvent } from '../status/node-events.ts';
import { Damper, type DamperOptions } from './damper.ts';

/** Milliseconds: all agents report to a new leader within seconds. */
const TIMES = { quiet: 100, longest: 500 };

interface NodeAddressesOptions {
  readonly log: Log;
  readonly clock: Clock;
  /** As configured; empty: every address counts. */
  readonly nodeCIDRs: readonly string[];
  /** Networks of pods of the configuration; absent: none. */
  readonly podCIDRs?: readonly string[] | undefined;
  /**
   * Called when `on` may return something else than before; one call for several reports.
   */
  readonly changed: () => Promise<void>;
  /** Called when changes of a Node begin to be held. */
  readonly delayed: () => void;
  /** Writes an Event on a Node; absent: nobody does. */
  readonly event?: (node: string, event: NodeEvent) => void;
}

/**
 * The Nodes as they are compiled: with the addresses that their agents report, and damped, since a
 * node's own credentials may change both.
 */
export class ReportedAddresses {
  readonly #log: Log;
  readonly #addresses;
  readonly #accepted: AcceptedAddresses;
  readonly #event: NonNullable<NodeAddressesOptions['event']>;
  /** The refused addresses of which log and Event were written, by Node. */
  readonly #told = new Map<string, string>();
  readonly #changed;
  readonly #nodes: DampedNodes;
  readonly #reports: Damper<readonly string[]>;
  readonly #keys = new TunnelKeys();
  readonly #reportedKeys: Damper<string>;
  /** Messages that were logged, each with the names of its Nodes. */
  readonly #logged = new Map<string, Set<string>>();
  /** The Nodes as damped last. */
  #last: readonly Node[] = NO_OBJECTS.nodes;

  constructor({ log, clock, nodeCIDRs, podCIDRs, changed, delayed, event = () => {} }: NodeAddressesOptions) {
    this.#log = log;
    this.#addresses = new HostAddresses(nodeCIDRs);
    this.#accepted = new AcceptedAddresses({ nodeCIDRs, podCIDRs });
    this.#event = event;
    this.#changed = new Debounce(changed, TIMES, clock);
    const damping = {
      clock,
      due: () => this.#changed.trigger(),
      delayed: (node: string) => {
        delayed();
        this.#warn(node, 'a Node changes its labels or addresses all the time; some changes wait', {});
      },
    };
    this.#nodes = new DampedNodes(damping);
    this.#reports = new Damper({ ...damping, withoutRemoved: itemsIn });
    this.#reportedKeys = new Damper({ ...damping, withoutRemoved: (published) => published });
  }

  receive({ node, hostAddresses, egress }: NodeReport): void {
    if (!this.#addresses.has(node)) return;
    if (egress?.key !== undefined) this.#receiveKey(node, this.#reportedKeys.set(node, egress.key));
    const { usable, beyond, outside } = this.#addresses.usable(hostAddresses);
    const ignored = { ignored: beyond };
    if (beyond > 0)
      this.#warn(
        node,
        `the agent reports more than ${MOST_REPORTED} addresses; the rest is ignored`,
        ignored,
      );
    if (outside > 0)
      this.#log.debug(
        'the agent reports addresses outside nodeCIDRs, or public ones without these; ignored',
        {
          node,
          ignored: outside,
        },
      );
    const now = this.#reports.set(node, usable) ?? [];
    if (this.#addresses.report(node, now)) this.#changed.trigger();
  }

  /** The objects, with the reported addresses that count. */
  on(objects: ClusterObjects): ClusterObjects {
    const nodes = this.#nodes.advance(objects.nodes);
    for (const [node, addresses] of this.#reports.due()) this.#addresses.report(node, addresses);
    for (const [node, key] of this.#reportedKeys.due()) this.#receiveKey(node, key);
    const accepted = this.#accepted.advance(nodes === objects.nodes ? objects : { ...objects, nodes });
    for (const { name, claimedAddresses } of accepted.nodes)
      if (claimedAddresses !== undefined) this.#refused(name, claimedAddresses);
      else this.#told.delete(name);
    const advanced = this.#addresses.advance(accepted);
    for (const { name } of listChange(this.#last, nodes).removed) this.#forgetDeleted(name);
    this.#last = nodes;
    return this.#keys.on(advanced);
  }

  #receiveKey(node: string, key: string | null): void {
    const outcome = this.#keys.report(node, key);
    if (outcome === 'new') this.#changed.trigger();
    if (outcome !== 'taken' || key === null) return;
    const isNew = this.#warn(
      node,
      'the agent reports the WireGuard key of another Node; it does not count',
      {},
    );
    const holder = this.#keys.holder(key);
    const note = `the agent reports the WireGuard key of Node ${holder}; it does not count, and the node has no encrypted tunnel: remove the file ${WIREGUARD_KEY_FILE} of its state directory, and restart its agent`;
    if (isNew) this.#event(node, { type: 'Warning', reason: 'NodewallKeyRefused', note });
  }

  /** Once for each Node, as long as the same addresses are refused. */
  #refused(node: string, addresses: readonly string[]): void {
    const text = addresses.join(', ');
    if (this.#told.get(node) === text) return;
    this.#told.set(node, text);
    this.#log.warn('a Node has addresses that something else has; they do not count', {
      node,
      ignored: text,
    });
    this.#event(node, { type: 'Warning', reason: 'NodewallAddressesRefused', note: claimedText(addresses) });
  }

  /** A Node that is created later under the same name may be another machine. */
  #forgetDeleted(name: string): void {
    if (this.#addresses.has(name)) return;
    this.#reports.delete(name);
    this.#reportedKeys.delete(name);
    this.#keys.report(name, null);
    this.#told.delete(name);
    for (const names of this.#logged.values()) names.delete(name);
  }

  close(): Promise<void> {
    this.#nodes.close();
    this.#reports.close();
    this.#reportedKeys.close();
    return this.#changed.close();
  }

  /** Once for each Node: whether this is the first time. */
  #warn(node: string, message: string, fields: object): boolean {
    const logged = this.#logged.get(message) ?? new Set();
    this.#logged.set(message, logged);
    if (logged.has(node)) return false;
    logged.add(node);
    this.#log.warn(message, { node, ...fields });
    return true;
  }
}

/**
 * Node objects as they are compiled. A node's own credentials may write its labels, addresses and
 * annotations, and each change goes to every node that has it as a peer: see Damper. A new Node
 * counts as a change; a deleted one is removed at once.
 */
class DampedNodes {
  readonly #damper: Damper<Node>;
  /** As last passed, and as last returned. */
  #given: readonly Node[] = [];
  #nodes: readonly Node[] = [];
  readonly #byName = new Map<string, Node>();

  constructor(options: Omit<DamperOptions<Node>, 'withoutRemoved'>) {
    this.#damper = new Damper({ ...options, withoutRemoved });
  }

  /** Advances to this list, and returns the Nodes to compile; the same array if none changed. */
  advance(nodes: readonly Node[]): readonly Node[] {
    const { removed, added } = listChange(this.#given, nodes);
    this.#given = nodes;
    const names = new Set(added.map(({ name }) => name));
    const changed = new Map<string, Node | null>();
    for (const { name } of removed) {
      if (names.has(name)) continue;
      this.#damper.delete(name);
      changed.set(name, null);
    }
    for (const node of added) changed.set(node.name, this.#damper.set(node.name, node));
    for (const [name, node] of this.#damper.due()) changed.set(name, node);
    let isSame = true;
    for (const [name, node] of changed) {
      if (this.#byName.get(name) === (node ?? undefined)) continue;
      isSame = false;
      if (node === null) this.#byName.delete(name);
      else this.#byName.set(name, node);
    }
    if (isSame) return this.#nodes;
    const list = nodes.flatMap(({ name }) => this.#byName.get(name) ?? []);
    this.#nodes = sameItems(list, nodes) ? nodes : list;
    return this.#nodes;
  }

  close(): void {
    this.#damper.close();
  }
}

/**
 * Without the addresses that the Node no longer has; its labels stay until the rate allows more.
 */
function withoutRemoved(published: Node, wanted: Node): Node {
  const addresses = itemsIn(published.addresses, wanted.addresses);
  return addresses === published.addresses ? published : { ...published, addresses };
}

/** Those items of a list that another one has too; the same list if it has all. */
function itemsIn(list: readonly string[], other: readonly string[]): readonly string[] {
  const both = list.filter((item) => other.includes(item));
  return both.length === list.length ? list : both;
}
