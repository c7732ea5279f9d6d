import { readFile } from 'node:fs/promises';
import type { NodeEgress } from '../../../apis/egress/node-egress.ts';
import { VERSION } from '../../../lib/process/version.ts';
import type { EgressHealthReport } from '../health/egress-health.ts';
import type { LeaseCounts } from './lease-state.ts';
import { LeaseThread, type LeaseThreadOptions } from './lease-thread.ts';

interface EgressLeasesOptions
  extends Pick<
    LeaseThreadOptions,
    'node' | 'authorities' | 'addresses' | 'replicas' | 'kernel' | 'clock' | 'log'
  > {
  readonly controller: { readonly url: URL; readonly tokenFile: string };
  /** Null: there are no leases any more. */
  readonly counted: (counts: LeaseCounts | null) => void;
}

/** The leases of a cluster's agent, for as long as it enforces rules. */
export interface EgressLeases {
  /** The controller's view, as the stream of this process has it. */
  viewed(egress: NodeEgress | null): void;
  /** These rules are in force. */
  enforced(egress: NodeEgress | null): void;
  health(report: EgressHealthReport): void;
  /** @param isLast the rules stay, and so does what is alive, for the next process */
  stop(isLast: boolean): Promise<void>;
}

export async function startLeases({
  controller,
  counted,
  ...parts
}: EgressLeasesOptions): Promise<EgressLeases> {
  const thread = new LeaseThread({
    ...parts,
    boot: (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim(),
    url: controller.url.href,
    tokenFile: controller.tokenFile,
    userAgent: `nodewall-agent/${VERSION}`,
    counted,
  });
  return {
    viewed: (egress) => thread.viewed(egress),
    enforced: (egress) => thread.enforced(egress),
    health: ({ unready, unreachable }) => thread.health(unready, unreachable),
    async stop(isLast) {
      if (!isLast) await thread.release();
      await thread.close();
      counted(null);
    },
  };
}
