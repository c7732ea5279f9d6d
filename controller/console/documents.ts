import type { Overview } from '../../apis/console.ts';
import type { Audit, DeniedPeers, Drops, Lint, Preview } from '../../apis/console-documents.ts';
import type { OverviewWatchers } from './overview-watchers.ts';
import type { StaticFiles } from './static-files.ts';

/** The documents of the console, of a cluster or of one machine. */
export interface ConsoleDocuments {
  readonly files: Pick<StaticFiles, 'file'>;
  readonly watchers: Pick<OverviewWatchers, 'open' | 'isFull'>;
  /** Null: nothing is known yet. */
  overview(): Promise<Overview | null>;
  drops(): Drops;
  hasNode(name: string): boolean;
  /** @param nodes empty: where most was denied */
  peers(nodes: readonly string[]): Promise<DeniedPeers>;
  /** @param nodes empty: all to which an Audit policy applies */
  audit(nodes: readonly string[]): Promise<Audit>;
  /** Throws NoDocumentError. */
  lint(): Promise<Lint>;
  /** Throws NoDocumentError. @param user whose turn it is, by name */
  preview(yaml: string, user: string): Promise<Preview>;
}

/** There is no document now; the message says why, and what to do. */
export class NoDocumentError extends Error {
  override readonly name = 'NoDocumentError';
}
