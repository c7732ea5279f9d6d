import { readFile } from 'node:fs/promises';
import type { NodeEgress } from '../../apis/egress/node-egress.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import { VERSION } from '../../lib/process/version.ts';
import type { FloatingKernel } from '../egress/floating-kernel.ts';
import type { EgressHealthReport } from '../egress/health/health-report.ts';
import { LeaseThread } from '../egress/lease/lease-thread.ts';
import type { Authorities } from '../receive/authorities.ts';
import type { AgentMetrics } from './agent-metrics.ts';

interface EgressLeasesParts {
  readonly node: string;
  readonly controller: { readonly url: URL; readonly tokenFile: string };
  readonly authorities: Authorities;
  /** The addresses at which the controller was reached. */
  readonly addresses: () => readonly string[];
  readonly log: Log;
  readonly metrics: AgentMetrics;
  readonly clock: Clock;
}

/** The leases of a cluster's agent, for as long as it enforces rules. */
export class EgressLeases {
  readonly #parts: EgressLeasesParts;
  #thread: LeaseThread | null = null;
  #egress: NodeEgress | null = null;

  constructor(parts: EgressLeasesParts) {
    this.#parts = parts;
  }

  /** The controller's view, as the stream of this process has it. */
  viewed(egress: NodeEgress | null): void {
    this.#egress = egress;
    this.#thread?.viewed(egress);
  }

  /** An enforcement has begun. */
  async start(kernel: FloatingKernel): Promise<void> {
    const { controller, metrics, ...parts } = this.#parts;
    this.#thread = new LeaseThread({
      ...parts,
      boot: (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim(),
      url: controller.url.href,
      tokenFile: controller.tokenFile,
      userAgent: `nodewall-agent/${VERSION}`,
      kernel,
      counted: (counts) => metrics.leases(counts),
    });
    if (this.#egress !== null) this.#thread.viewed(this.#egress);
  }

  /** These rules are in force. */
  enforced(egress: NodeEgress | null): void {
    this.#thread?.enforced(egress);
  }

  health({ unready, unreachable }: EgressHealthReport): void {
    this.#thread?.health(unready, unreachable);
  }

  /** The enforcement is to end. @param isLast rules stay, and so does what is alive, for the next process */
  async stop(isLast: boolean): Promise<void> {
    if (!isLast) await this.#thread?.release();
    await this.#thread?.close();
    this.#thread = null;
    this.#parts.metrics.leases(null);
  }
}
