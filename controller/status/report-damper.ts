import { isDeepStrictEqual } from 'node:util';
import type { NodeReport } from '../../apis/node-report.ts';
import { type RateLimiter, rateLimiter } from '../../lib/process/fair-queue.ts';
import { parseRevision } from '../publish/revision.ts';
import { isOlder } from './tracked-version.ts';

/** So many changes of one node at once, and then so many a second. */
const CHANGES = { burst: 10, perSecond: 0.1 };

/**
 * Holds reports of a node whose reports change all the time: each may change the statuses of all
 * policies on the node. A report that only enforces a later revision is not such a change. The last
 * report is never lost.
 */
export class ReportDamper {
  readonly #limiter: RateLimiter;
  /** By node: the report that was used last. */
  readonly #used = new Map<string, NodeReport>();
  readonly #held = new Map<string, NodeReport>();

  /** @param now returns monotonic milliseconds */
  constructor(now: () => number) {
    this.#limiter = rateLimiter({ ...CHANGES, now });
  }

  /** Whether to use this report now; if not, `take` returns it later. */
  isDue(report: NodeReport): boolean {
    const { node } = report;
    const before = this.#used.get(node);
    const isDue = before === undefined || isProgress(before, report) || this.#limiter.allows(node);
    if (isDue) {
      this.#used.set(node, report);
      this.#held.delete(node);
    } else this.#held.set(node, report);
    return isDue;
  }

  /** The held reports that are due now. */
  due(): NodeReport[] {
    return [...this.#held.values()].filter((report) => this.isDue(report));
  }

  /** Keeps those of existing nodes only: another machine may get the name of a deleted one. */
  forgetOthers(existing: ReadonlyMap<string, unknown>): void {
    for (const node of this.#held.keys()) if (!existing.has(node)) this.#held.delete(node);
    if (this.#used.size <= existing.size) return;
    for (const node of this.#used.keys()) if (!existing.has(node)) this.#used.delete(node);
  }
}

function isProgress(before: NodeReport, now: NodeReport): boolean {
  return (
    before.enabled === now.enabled &&
    before.off === now.off &&
    before.viewError === now.viewError &&
    isDeepStrictEqual(before.failing, now.failing) &&
    isDeepStrictEqual(before.features, now.features) &&
    !isOlder(parseRevision(now.enforced ?? ''), parseRevision(before.enforced ?? ''))
  );
}
