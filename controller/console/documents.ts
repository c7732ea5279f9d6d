import type { CompiledPolicy } from '../../apis/compiled.ts';
import type { Overview } from '../../apis/console.ts';
import type { Audit, DeniedPeers, Drops, Lint, Preview } from '../../apis/console-documents.ts';
import { MOST_ASKED } from '../../apis/console-documents.ts';
import type { WallClock } from '../../lib/process/clock.ts';
import type { AskNode } from './ask-nodes.ts';
import { auditOf } from './audit.ts';
import type { ClusterOverview } from './cluster-overview.ts';
import { deniedPeers } from './denied-peers.ts';
import type { DropHistory } from './drop-history.ts';
import type { OverviewWatchers } from './overview-watchers.ts';
import type { StaticFiles } from './static-files.ts';
import type { Surveys } from './surveys.ts';

export interface ConsoleDocumentsOptions {
  readonly files: Pick<StaticFiles, 'file'>;
  readonly watchers: OverviewWatchers;
  readonly overview: Pick<ClusterOverview, 'now'>;
  readonly drops: DropHistory;
  readonly surveys: Pick<Surveys, 'lint' | 'preview'>;
  readonly ask: AskNode;
  readonly nodes: () => Pick<ReadonlyMap<string, unknown>, 'has' | 'keys' | 'size'>;
  readonly policies: () => readonly CompiledPolicy[];
  /** Why something is not known yet; null: nothing. */
  readonly missing: () => string | null;
  readonly clock: Pick<WallClock, 'date'>;
}

/** The console's documents; every replica has them. */
export class ConsoleDocuments {
  readonly files: ConsoleDocumentsOptions['files'];
  readonly watchers: OverviewWatchers;
  readonly #options: ConsoleDocumentsOptions;

  constructor(options: ConsoleDocumentsOptions) {
    this.#options = options;
    this.files = options.files;
    this.watchers = options.watchers;
  }

  /** Null: nothing is known yet. */
  overview(): Promise<Overview | null> {
    return this.#options.overview.now();
  }

  drops(): Drops {
    return this.#options.drops.document(this.#options.missing());
  }

  hasNode(name: string): boolean {
    return this.#options.nodes().has(name);
  }

  /** @param nodes empty: where most was denied */
  peers(nodes: readonly string[]): Promise<DeniedPeers> {
    const { ask, drops, nodes: all, clock } = this.#options;
    const worst = drops.worstNodes(MOST_ASKED).filter((name) => all().has(name));
    const others = worst.length < MOST_ASKED ? [...all().keys()].sort() : [];
    const wanted = nodes.length > 0 ? nodes : [...new Set([...worst, ...others])];
    return deniedPeers({ ask, nodes: wanted, all: all().size }, () => clock.date());
  }

  /** @param nodes empty: all to which an Audit policy applies */
  audit(nodes: readonly string[]): Promise<Audit> {
    const { ask, policies, clock } = this.#options;
    const only = nodes.length === 0 ? null : nodes;
    return auditOf({ ask, policies: policies(), only, now: () => clock.date() });
  }

  /** Throws NoDocumentError. */
  lint(): Promise<Lint> {
    return this.#options.surveys.lint();
  }

  /** Throws NoDocumentError. @param user whose turn it is, by name */
  preview(yaml: string, user: string): Promise<Preview> {
    return this.#options.surveys.preview(yaml, user);
  }
}
