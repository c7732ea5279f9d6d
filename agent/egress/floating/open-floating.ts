import {
  type Generation,
  Netlink,
  PacketSocket,
  RouteMonitor,
  RouteSocket,
  TimedElements,
} from 'nftables-napi';
import type { MemberSet } from '../../../lib/net/member-set.ts';
import { keepOpen } from '../../../lib/process/back-off.ts';
import type { Clock } from '../../../lib/process/clock.ts';
import type { Log } from '../../../lib/process/log.ts';
import type { Kernel } from '../../apply/netlink/kernel.ts';
import type { MonitorTrouble } from '../../dataplane/dataplane.ts';
import type { FloatingKernel } from '../floating-kernel.ts';
import { ARP_TABLE, type ArpTable } from '../render/arp-table.ts';
import { ArpKeeper, ArpSilence } from './arp-keeper.ts';
import { FloatingAddresses } from './floating-addresses.ts';
import { LiveSets } from './live-sets.ts';
import { Places } from './places.ts';

interface FloatingOptions {
  readonly log: Log;
  readonly clock: Clock;
  /** A transaction in our tables that changed nothing but elements with a timeout. */
  readonly committed: (generation: Readonly<Generation>) => void;
  readonly troubled: (trouble: MonitorTrouble) => void;
}

/** Parts that floating addresses need beside the reconciler's rules. */
export interface OpenFloating {
  readonly kernel: FloatingKernel;
  /** Drops what is not of these pools; failures are logged. */
  leave(pools: MemberSet): Promise<void>;
  /** The table for ARP; null: there is none. Trouble is logged, and floating addresses wait. */
  silence(table: ArpTable | null): Promise<void>;
  /** @returns what somebody else changed of it; the next `silence` makes it again */
  verify(): Promise<readonly string[]>;
  keptIn(kernel: Kernel): Kernel;
  /** Nothing is removed from the kernel. */
  close(): Promise<void>;
}

/** Opens the sockets of this machine for floating addresses. */
export function openFloating({ log, clock, committed, troubled }: FloatingOptions): OpenFloating {
  const [netlink, timed, port] = [new Netlink(), new TimedElements(), new RouteSocket()];
  const live = new LiveSets({ netlink, timed, clock, committed });
  const open = (link: number, protocol: 'arp' | 'ndp') => new PacketSocket(link, protocol);
  const silence = new ArpSilence({ keeper: new ArpKeeper(netlink), clock, log });
  const addresses = new FloatingAddresses({
    live,
    port,
    open,
    clock,
    log,
    speaks: () => silence.problem,
  });
  const stage = 'egress';
  let left: MemberSet | null = null;
  const monitor = keepOpen({
    clock,
    open(failed, isAgain) {
      if (isAgain) addresses.changed([{ event: 'overrun' }]);
      return new RouteMonitor({}, (events) => {
        for (const one of events) if (one.event === 'error') failed(one.error);
        addresses.changed(events);
      });
    },
    failed(error, retryIn) {
      troubled('failed');
      log.error('the monitor of addresses failed; opening it again', {
        stage,
        error: error.message,
        retryIn,
      });
    },
  });
  return {
    kernel: addresses,
    async leave(pools) {
      if (pools === left) return;
      try {
        await addresses.leave(pools);
        left = pools;
      } catch (error) {
        const message = 'cannot drop floating addresses that are of no pool any more';
        log.error(message, { stage, error: (error as Error).message });
      }
    },
    silence: (table) => silence.apply(table),
    async verify() {
      return (await silence.verify()) ? [`table ${ARP_TABLE.family} ${ARP_TABLE.name} was changed`] : [];
    },
    keptIn: (kernel) => live.keptIn(kernel),
    async close() {
      silence.close();
      addresses.close();
      await monitor.close();
      await Promise.all([netlink.close(), timed.close(), port.close()]);
    },
  };
}

/** Removes what floating addresses have left on this machine; returns what was removed. */
export async function removeFloating(): Promise<string[]> {
  const [netlink, port] = [new Netlink(), new RouteSocket()];
  try {
    // The addresses first: without the table the kernel would answer for them.
    const removed = await (await Places.read(port)).removeAll();
    const hadTable = await new ArpKeeper(netlink).remove();
    return hadTable ? [...removed, `table ${ARP_TABLE.family} ${ARP_TABLE.name}`] : removed;
  } finally {
    await Promise.all([netlink.close(), port.close()]);
  }
}
