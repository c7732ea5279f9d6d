import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  CONSOLE_PATH,
  OVERVIEWS,
  OVERVIEWS_PATH,
  type OverviewName,
  PREVIEWS_PATH,
} from '../../apis/console.ts';
import { LONGEST_PREVIEW, MOST_ASKED } from '../../apis/console-documents.ts';
import {
  type Answer,
  allowed,
  jsonBody,
  noNode,
  notYet,
  refused,
  tooMany,
  unavailable,
} from '../publish/answer.ts';
import type { ConsoleDocuments } from './documents.ts';
import { NoDocumentError } from './surveys.ts';

/** A request to the console's resources, as RBAC has it. */
export interface ConsoleAccess {
  readonly verb: 'get' | 'watch' | 'create';
  readonly resource: 'console' | 'overviews' | 'previews';
  /** Absent: the resource itself. */
  readonly name?: string;
}

export interface ConsoleRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly query: URLSearchParams;
  /** Whose turn it is where requests wait for each other. */
  readonly user: string;
}

/** Bytes of a body: as JSON a text is longer than it is. */
const MOST_BODY = 2 * LONGEST_PREVIEW;

/**
 * Reads a path of the console; null: it is not one. A name may be any text: only those that exist
 * are answered.
 */
export function consoleAccess(path: string, query: URLSearchParams): ConsoleAccess | null {
  if (path === PREVIEWS_PATH) return { verb: 'create', resource: 'previews' };
  if (path === OVERVIEWS_PATH) return { verb: 'watch', resource: 'overviews', name: watched(query) };
  for (const [folder, resource] of [
    [CONSOLE_PATH, 'console'],
    [OVERVIEWS_PATH, 'overviews'],
  ] as const) {
    const [first, ...rest] = path.startsWith(`${folder}/`) ? path.slice(folder.length + 1).split('/') : [];
    if (first !== undefined && rest.length === 0) return { verb: 'get', resource, name: first };
  }
  return null;
}

/** As in OVERVIEW_WATCH; '': it is not of this form. */
function watched(query: URLSearchParams): string {
  const isWatch = ['true', '1'].includes(query.get('watch') ?? '');
  const [, name = ''] = /^metadata\.name==?([a-z]+)$/.exec(query.get('fieldSelector') ?? '') ?? [];
  return isWatch ? name : '';
}

/** Answers what `consoleAccess` found; the permission is given. */
export async function consoleAnswer(
  documents: ConsoleDocuments,
  asked: ConsoleRequest,
  { verb, resource, name = '' }: ConsoleAccess,
): Promise<Answer> {
  const { request } = asked;
  try {
    if (resource === 'previews') return allowed(request, ['POST']) ?? (await preview(documents, asked));
    if (resource === 'console')
      return allowed(request, ['GET', 'HEAD']) ?? (await file(documents, request, name));
    if (verb === 'watch') return allowed(request, ['GET']) ?? (await watch(documents, asked, name));
    return allowed(request, ['GET', 'HEAD']) ?? (await overview(documents, asked, name));
  } catch (error) {
    if (error instanceof NoDocumentError) return unavailable(error.message);
    throw error;
  }
}

async function file(
  { files }: ConsoleDocuments,
  { headers }: IncomingMessage,
  name: string,
): Promise<Answer> {
  const accepts = headers['accept-encoding'];
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

async function watch(
  documents: ConsoleDocuments,
  { response }: ConsoleRequest,
  name: string,
): Promise<Answer> {
  if (name !== 'cluster')
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

async function overview(
  documents: ConsoleDocuments,
  { query }: ConsoleRequest,
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
      return json(await documents.peers(nodes));
    case 'audit':
      return json(await documents.audit(nodes));
    case 'lint':
      return json(await documents.lint());
  }
}

async function preview(documents: ConsoleDocuments, { request, user }: ConsoleRequest): Promise<Answer> {
  const body = await jsonBody(request, MOST_BODY, 'the preview');
  if ('failure' in body) return body;
  const { yaml } = Object(body.json) as { readonly yaml?: unknown };
  if (typeof yaml !== 'string') return refused('Invalid', 'yaml: must be the text of the objects');
  if (Buffer.byteLength(yaml) > LONGEST_PREVIEW)
    return refused('RequestEntityTooLarge', `yaml: has more than ${LONGEST_PREVIEW} bytes`);
  return json(await documents.preview(yaml, user));
}

function json(body: object): Answer {
  const text = `${JSON.stringify(body)}\n`;
  return { code: 200, text, type: 'application/json', headers: { 'cache-control': 'no-store' } };
}
