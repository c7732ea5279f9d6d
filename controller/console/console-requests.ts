import type { CompiledPolicy } from '../../apis/compiled.ts';
import {
  CONSOLE_PATH,
  OVERVIEWS,
  OVERVIEWS_PATH,
  type Overview,
  type OverviewName,
  PREVIEWS_PATH,
} from '../../apis/console.ts';
import {
  type Audit,
  type DeniedPeers,
  type Drops,
  type Lint,
  LONGEST_PREVIEW,
  MOST_ASKED,
  type Preview,
} from '../../apis/console-documents.ts';
import { decode, object, text } from '../../apis/schema/shape.ts';
import type { WallClock } from '../../lib/process/clock.ts';
import { type Answer, noNode, notYet, refused, tooMany, unavailable } from '../publish/answer.ts';
import { callerOf, type Work } from '../publish/limits.ts';
import { type RoutedRequest, type RouteRow, row } from '../publish/route.ts';
import { auditOf } from './audit.ts';
import type { ClusterOverview } from './cluster-overview.ts';
import type { DropHistory } from './drop-history.ts';
import { type AskNode, deniedPeers } from './node-answers.ts';
import type { OverviewWatchers } from './overview-watchers.ts';
import type { StaticFiles } from './static-files.ts';
import { NoDocumentError, type Surveys } from './surveys.ts';

/** The objects as text. */
const PREVIEW = object({ yaml: text() });

export interface ConsoleOptions {
  /** Absent: this controller has no console. */
  readonly console?: ConsoleDocuments;
}

const documents = {
  service: (options: ConsoleOptions) => options.console,
  absent: 'this controller has no console',
};
/** Bytes of a body: as JSON a text is longer than it is. */
const MOST_PREVIEW = 2 * LONGEST_PREVIEW;

const overviewRow = (name: string, limit: Work): RouteRow<ConsoleOptions> =>
  row({
    methods: ['GET', 'HEAD'],
    path: `${OVERVIEWS_PATH}/${name}`,
    caller: 'user',
    limit,
    ...documents,
    right: (asked) => ({ verb: 'get', resource: 'overviews', name: asked.name || name }),
    answer: (service, asked) => overview(service, asked, asked.name || name),
  });

/** Names in the console's paths may be any text: only those that exist are answered. */
export const CONSOLE_ROWS: readonly RouteRow<ConsoleOptions>[] = [
  row({
    methods: ['GET', 'HEAD'],
    path: `${CONSOLE_PATH}/{name}`,
    caller: 'user',
    limit: 'files',
    ...documents,
    right: ({ name }) => ({ verb: 'get', resource: 'console', name }),
    answer: consoleFile,
  }),
  row({
    methods: ['GET'],
    path: OVERVIEWS_PATH,
    caller: 'user',
    limit: 'overviewWatch',
    ...documents,
    right: ({ query }) => ({ verb: 'watch', resource: 'overviews', name: watchedOverview(query) }),
    answer: overviewWatch,
  }),
  // Each asks up to 64 nodes, or looks at all rules.
  ...['peers', 'audit', 'lint'].map((name) => overviewRow(name, 'survey')),
  overviewRow('{name}', 'overview'),
  row({
    methods: ['POST'],
    path: PREVIEWS_PATH,
    caller: 'user',
    limit: 'preview',
    ...documents,
    right: () => ({ verb: 'create', resource: 'previews' }),
    body: { most: MOST_PREVIEW, title: 'the preview', parse: (value) => decode(PREVIEW, value).yaml },
    answer: preview,
  }),
];

/** The overview that is watched, as in OVERVIEW_WATCH; '': the query is not of this form. */
function watchedOverview(query: URLSearchParams): string {
  const isWatch = ['true', '1'].includes(query.get('watch') ?? '');
  const [, name = ''] = /^metadata\.name==?([a-z]+)$/.exec(query.get('fieldSelector') ?? '') ?? [];
  return isWatch ? name : '';
}

/** A file of the pages. */
async function consoleFile(
  { files }: ConsoleDocuments,
  { request, name }: Pick<RoutedRequest, 'request' | 'name'>,
): Promise<Answer> {
  const accepts = request.headers['accept-encoding'];
  let found: Awaited<ReturnType<typeof files.file>>;
  try {
    found = await files.file(name, typeof accepts === 'string' ? accepts : '');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ENOENT' && code !== 'ENOTDIR') throw error;
    return refused(
      'NotFound',
      'the pages of the console are not built here: run bin/setup, or use an image that has them',
    );
  }
  if (found === null) return refused('NotFound', 'the console has no such file');
  const { bytes: text, type, headers: fields } = found;
  return { code: 200, text, type, headers: fields };
}

/** Sends the overview of the cluster, and each later one. */
async function overviewWatch(
  documents: ConsoleDocuments,
  { response, query }: Pick<RoutedRequest, 'response' | 'query'>,
): Promise<Answer> {
  if (watchedOverview(query) !== 'cluster')
    return refused(
      'BadRequest',
      'only the overview "cluster" can be watched: ?watch=true&fieldSelector=metadata.name=cluster',
    );
  const { watchers } = documents;
  if (watchers.isFull)
    return tooMany('the limit of concurrent watches of the overview is reached; retry later');
  if ((await documents.overview()) === null) return notYet();
  if (!response.destroyed) watchers.open(response);
  return { code: 200, streaming: true };
}

/** @param name any text */
async function overview(
  documents: ConsoleDocuments,
  { query }: Pick<RoutedRequest, 'query'>,
  name: string,
): Promise<Answer> {
  const known: OverviewName | undefined = OVERVIEWS.find((one) => one === name);
  if (known === undefined)
    return refused('NotFound', `there is no such overview; there are ${OVERVIEWS.join(', ')}`);
  const nodes = [...new Set(query.getAll('node'))];
  const missing = nodes.slice(0, MOST_ASKED + 1).find((node) => !documents.hasNode(node));
  const current = await documents.overview();
  if (current === null) return notYet();
  if (nodes.length > MOST_ASKED) return refused('BadRequest', `node: no more than ${MOST_ASKED} at once`);
  if (missing !== undefined) return noNode(missing.slice(0, 253));
  switch (known) {
    case 'cluster':
      return json(current);
    case 'drops':
      return json(documents.drops());
    case 'peers':
      return await unlessNone(() => documents.peers(nodes));
    case 'audit':
      return await unlessNone(() => documents.audit(nodes));
    case 'lint':
      return await unlessNone(() => documents.lint());
  }
}

/** Answers what the objects in the body would change. */
async function preview(
  documents: ConsoleDocuments,
  { identity, body }: Pick<RoutedRequest<string>, 'identity' | 'body'>,
): Promise<Answer> {
  if (Buffer.byteLength(body) > LONGEST_PREVIEW)
    return refused('RequestEntityTooLarge', `yaml: has more than ${LONGEST_PREVIEW} bytes`);
  return await unlessNone(() => documents.preview(body, callerOf(identity)));
}

/** A document that cannot be made now is refused with its reason. */
async function unlessNone(document: () => Promise<object>): Promise<Answer> {
  try {
    return json(await document());
  } catch (error) {
    if (error instanceof NoDocumentError) return unavailable(error.message);
    throw error;
  }
}

function json(body: object): Answer {
  const text = `${JSON.stringify(body)}\n`;
  return { code: 200, text, type: 'application/json', headers: { 'cache-control': 'no-store' } };
}

interface ConsoleDocumentsOptions {
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
