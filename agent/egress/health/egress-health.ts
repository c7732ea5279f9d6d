import { randomBytes, randomInt } from 'node:crypto';
import { EchoSocket } from 'nftables-napi';
import type { NodeEgress } from '../../../apis/egress/node-egress.ts';
import type { Clock } from '../../../lib/process/clock.ts';
import type { Log } from '../../../lib/process/log.ts';
import { TUNNEL } from '../render/tunnel.ts';
import type { InterfaceAddresses } from './interface-addresses.ts';
import { withoutLost } from './lost-gateways.ts';
import { OutwardProbes, openQuestion } from './outward-probes.ts';
import { probedEnds, TunnelProber } from './tunnel-prober.ts';

interface EgressHealthOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly interfaces: InterfaceAddresses;
  /** Gateway nodes that did not answer when an earlier process ended. */
  readonly lost: readonly string[];
  /** Called when `local` would make something else of the same value. */
  readonly changed: () => void;
  readonly reported: (report: EgressHealthReport) => void;
}

const STAGE = { stage: 'apply' } as const;
/** As the reason of a condition. */
const PROBES_FAILED = 'ProbesFailed';

/** A node's egress as it finds out itself: without gateways that do not answer. */
export class EgressHealth {
  readonly #options: EgressHealthOptions;
  readonly #tunnel: TunnelProber;
  readonly #outward: OutwardProbes;
  #isReported = false;
  #last: { readonly of: NodeEgress; readonly local: NodeEgress } | null = null;

  constructor(options: EgressHealthOptions) {
    this.#options = options;
    const identifier = randomInt(0x10000);
    const secret = randomBytes(16);
    const { clock, log, lost } = options;
    this.#tunnel = new TunnelProber({
      clock,
      identifier,
      secret,
      lost,
      open: () => toPort(new EchoSocket(6, { device: TUNNEL.link })),
      changed: (node, isLost) => this.#tunnelChanged(node, isLost),
      hindered(error) {
        if (error === null) log.info('gateways are asked through the tunnel again', STAGE);
        else log.warn('cannot ask gateways through the tunnel; retrying', { ...STAGE, error: error.message });
      },
    });
    this.#outward = new OutwardProbes({
      clock,
      open: (probe) => openQuestion(probe, identifier, secret),
      changed: (gateway, isFailing) => this.#gatewayChanged(gateway, isFailing),
    });
  }

  /** The same object for the same value, until something changes. */
  local(egress: NodeEgress): NodeEgress {
    if (this.#last?.of === egress) return this.#last.local;
    const { interfaces } = this.#options;
    interfaces.follow(interfaceNames(egress));
    const local = withInterfaces(withoutLost(egress, new Set(this.#tunnel.lost())), interfaces);
    this.#last = { of: egress, local };
    return local;
  }

  /** Asks what this node depends on, once it is in force; null: nothing is. */
  inForce(egress: NodeEgress | null): void {
    const isKnown = this.#isReported || this.#options.lost.length === 0;
    this.#tunnel.ask(egress === null ? new Map() : probedEnds(egress));
    this.#outward.ask(egress?.candidacies ?? []);
    // Facts that an earlier process knew are news to others once its reports are old.
    if (!isKnown) this.#report();
  }

  report(): EgressHealthReport {
    return {
      unreachable: this.#tunnel.lost(),
      unready: new Map([...this.#outward.failing()].map((gateway) => [gateway, PROBES_FAILED])),
      roundTrips: this.#tunnel.roundTrips(),
    };
  }

  /** Resolves once what the node does no longer waits for what is being read. */
  idle(): Promise<void> {
    return this.#options.interfaces.idle();
  }

  /** The addresses of an interface are others. */
  refresh(): void {
    this.#last = null;
    this.#options.changed();
  }

  close(): void {
    this.#tunnel.close();
    this.#outward.close();
    this.#options.interfaces.close();
  }

  #tunnelChanged(node: string, isLost: boolean): void {
    const { log } = this.#options;
    if (isLost)
      log.warn('a gateway does not answer through the tunnel; connections go by others, if there are any', {
        ...STAGE,
        gatewayNode: node,
      });
    else log.info('a gateway answers through the tunnel again', { ...STAGE, gatewayNode: node });
    this.refresh();
    this.#report();
  }

  #gatewayChanged(gateway: string, isFailing: boolean): void {
    const { log } = this.#options;
    if (isFailing)
      log.warn('all probes of an egress gateway fail here: this node is not ready for it', {
        ...STAGE,
        gateway,
      });
    else
      log.info('a probe of an egress gateway is answered again: this node is ready for it', {
        ...STAGE,
        gateway,
      });
    this.#report();
  }

  #report(): void {
    this.#isReported = true;
    this.#options.reported(this.report());
  }
}

function toPort(socket: EchoSocket) {
  return {
    request: socket.request.bind(socket),
    replies: () => socket.replies(),
    close: () => socket.close(),
  };
}

function interfaceNames({ takes }: NodeEgress): Set<string> {
  return new Set([...takes.values()].flatMap((take) => (take.kind === 'node' ? (take.interface ?? []) : [])));
}

function withInterfaces(egress: NodeEgress, interfaces: InterfaceAddresses): NodeEgress {
  if (interfaceNames(egress).size === 0) return egress;
  const takes = [...egress.takes].map(([number, take]) => {
    const found = take.kind === 'node' && take.interface !== null ? interfaces.of(take.interface) : undefined;
    return [number, found === undefined ? take : { ...take, found }] as const;
  });
  return { ...egress, takes: new Map(takes) };
}

/** Results of a node's probes of gateways. */
export interface EgressHealthReport {
  /** Gateway nodes that it does not reach through the tunnel, sorted. */
  readonly unreachable: readonly string[];
  /** Gateways of which it is a candidate and that it can't serve, with the reason. */
  readonly unready: ReadonlyMap<string, string>;
  /** By gateway node that is asked; null: it has not answered yet. */
  readonly roundTrips: ReadonlyMap<string, number | null>;
}
