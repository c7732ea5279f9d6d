/**
 * Light clients: each holds a stream as an agent does, and reads no more of it than its bookmarks.
 * Many in one process. One of each pool folds what it receives, and the others send the view that
 * it holds when they come back: theirs is the same. They come back by themselves as agents do:
 * after half a second, twice as long each time, with jitter.
 */

import type { ClientRequest } from 'node:http';
import { request } from 'node:https';
import { connect as connectTls, createSecureContext } from 'node:tls';
import { type Fold, type Folded, fold } from '../../agent/receive/fold.ts';
import { type NodeState, namedBy } from '../../apis/compiled.ts';
import { NODE_VIEWS_PATH } from '../../apis/stream.ts';
import { parseRevision } from '../../controller/publish/resume-log.ts';
import { hasSingle } from '../../lib/net/packed-keys.ts';
import { LineSplitter } from '../../lib/process/body.ts';
import {
  addressAfter,
  type Changes,
  type ClientsAnswer,
  type ClientsOrder,
  digestOfState,
  ofPosition,
  POOLS,
  type PublishClientsInput,
  ruleAfter,
  UNCHANGED,
  type ViewsAnswer,
} from '../measure/publish.ts';
import { median } from '../measure/statistics.ts';
import { trialInput } from './trial.ts';

interface Client {
  readonly index: number;
  readonly node: string;
  readonly pool: number;
  /** As long as a service account's, and nobody's. */
  readonly token: string;
  /** Of the last bookmark, in whichever connection: where to go on. */
  position: string | null;
  /** Of the last bookmark in whichever connection; and whether that is the present one. */
  changes: Changes;
  isThere: boolean;
  /** When it had its last bookmark. */
  at: number;
  /** When it lost its connection; null: it has one. */
  lostAt: number | null;
  tail: string;
  request: ClientRequest | null;
  wait: number;
  /** In the client that folds for its pool. */
  readonly folding: { readonly fold: Fold; lines: LineSplitter; state: NodeState | null } | null;
}

const FIRST_WAIT = 500;
const LONGEST_WAIT = 5000;
const LONGEST_LINE = 64 << 20;
/** A bookmark's line is shorter. */
const TAIL = 400;

const { ca, first, count, ...input } = trialInput<PublishClientsInput>();
const secureContext = createSecureContext({ ca });
const clients = Array.from({ length: count }, (_, i): Client => {
  const node = `node-${first + i}`;
  return {
    index: first + i,
    node,
    pool: i % POOLS,
    token: tokenOf(node),
    position: null,
    changes: UNCHANGED,
    isThere: false,
    at: 0,
    lostAt: null,
    tail: '',
    request: null,
    wait: FIRST_WAIT,
    folding: i < POOLS ? { fold: fold(node), lines: new LineSplitter(LONGEST_LINE), state: null } : null,
  };
});
let bytes = 0;
let failed = 0;
let { ports } = input;
const heldOf = new Map<number, { readonly position: string; readonly json: string | null }>();
let resets = 0;
let gaps: number[] = [];
let missed = 0;
let awaited: Changes | null = null;

process.on('message', (order: ClientsOrder) => {
  switch (order.to) {
    case 'connect':
      for (const client of clients) {
        client.request?.destroy();
        connect(client, order.resume);
      }
      break;
    case 'use':
      ({ ports } = order);
      break;
    case 'await':
      awaited = order.changes;
      tellWhenThere();
      break;
    case 'views':
      tellViews();
      break;
  }
});
process.send?.({ is: 'ready' });
process.on('disconnect', () => process.exit());

/**
 * One context for all: reading the CA anew for each would be most of the work. Each has an address,
 * as nodes have: the controller limits the connections of one.
 */
function connectionOf({ index }: Client) {
  const localAddress = `127.${1 + ((index >> 16) & 63)}.${(index >> 8) & 255}.${index & 255}`;
  const options = { host: '127.0.0.1', localAddress, port: drawnPort(), secureContext };
  return connectTls(options);
}

function drawnPort(): number {
  return ports[Math.floor(Math.random() * ports.length)] ?? 0;
}

function tokenOf(node: string): string {
  const claims = { node, exp: 4_000_000_000, filler: 'x'.repeat(500) };
  return `e30.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.${'x'.repeat(340)}`;
}

function connect(client: Client, resume: boolean): void {
  const position = resume && client.position !== null ? `&resourceVersion=${client.position}` : '';
  const path = `${NODE_VIEWS_PATH}?watch=true&fieldSelector=metadata.name=${client.node}${position}`;
  const body = position === '' ? null : heldBy(client);
  const headers = {
    authorization: `Bearer ${client.token}`,
    ...(body === null
      ? {}
      : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }),
  };
  const method = body === null ? 'GET' : 'POST';
  const createConnection = () => connectionOf(client);
  const asked = request({ host: '127.0.0.1', path, method, headers, createConnection });
  if (client.folding !== null) {
    client.folding.fold.begin(body !== null);
    client.folding.lines = new LineSplitter(LONGEST_LINE);
  }
  client.request = asked;
  client.tail = '';
  client.isThere = false;
  let isOver = false;
  const again = (): void => {
    if (isOver || client.request !== asked) return;
    isOver = true;
    failed++;
    if (client.isThere) client.lostAt = now();
    client.isThere = false;
    const wait = client.wait * (0.5 + Math.random() / 2);
    client.wait = Math.min(2 * client.wait, LONGEST_WAIT);
    setTimeout(() => {
      if (client.request === asked) connect(client, true);
    }, wait);
  };
  asked.on('error', again);
  asked.on('response', (response) => {
    if (response.statusCode !== 200) {
      response.resume();
      again();
      return;
    }
    response.once('data', (chunk: Buffer) => {
      if (chunk.toString('latin1', 0, TAIL).includes('"type":"reset"')) resets++;
    });
    response.on('data', (chunk: Buffer) => take(client, chunk));
    response.on('error', again);
    response.on('close', again);
  });
  asked.end(body ?? undefined);
}

/** As JSON, made once for all clients of a pool; null before the first bookmark. */
function heldBy({ pool }: Client): string | null {
  const folder = clients[pool];
  if (folder === undefined || folder.position === null) return null;
  const known = heldOf.get(pool);
  if (known?.position === folder.position) return known.json;
  const held = folder.folding?.fold.current() ?? null;
  const json = held === null ? null : JSON.stringify(held);
  heldOf.set(pool, { position: folder.position, json });
  return json;
}

function take(client: Client, chunk: Buffer): void {
  bytes += chunk.length;
  let folded: Folded | null = null;
  for (const line of client.folding?.lines.push(chunk) ?? [])
    folded = client.folding?.fold.receive(JSON.parse(line)) ?? folded;
  const end = chunk.toString('latin1', Math.max(0, chunk.length - TAIL));
  client.tail = end.length === TAIL ? end : (client.tail + end).slice(-TAIL);
  if (!client.tail.endsWith('\n')) return;
  const line = client.tail.slice(client.tail.lastIndexOf('\n', client.tail.length - 2) + 1);
  const [, revision] = /^\{"sequence":\d+,"revision":"([^"]+)","type":"bookmark"/.exec(line) ?? [];
  if (revision === undefined) return;
  reached(client, revision, folded);
  tellWhenThere();
}

function reached(client: Client, revision: string, folded: Folded | null): void {
  const changes = ofPosition(parseRevision(revision)?.position ?? []);
  const steps = changes.members + changes.rules - client.changes.members - client.changes.rules;
  const isBack = !isAfter(changes, client.changes);
  // Each change is for all nodes: in one connection there is a bookmark for each of them.
  if (isBack || (client.isThere && steps > 1) || !isOf(folded, changes)) missed++;
  client.changes = changes;
  client.position = revision;
  client.isThere = true;
  if (folded !== null && client.folding !== null) client.folding.state = folded.state;
  client.at = now();
  if (client.lostAt !== null) gaps.push(client.at - client.lostAt);
  client.lostAt = null;
  client.wait = FIRST_WAIT;
}

function isAfter(a: Changes, b: Changes): boolean {
  return a.members >= b.members && a.rules >= b.rules;
}

/** Whether the folded rules are those after so many changes; for clients that do not fold, true. */
function isOf(folded: Folded | null, changes: Changes): boolean {
  if (folded === null) return true;
  const { rules, addressSets } = folded.state;
  const rule = rules.find(({ source }) => source.rule === ruleAfter(changes));
  const sets = namedBy(rule === undefined ? [] : [rule]).addressSets;
  return sets.some((id) => {
    const members = addressSets.get(id)?.members;
    return members !== undefined && hasSingle(members.v4, addressAfter(changes));
  });
}

function tellViews(): void {
  const states = clients.flatMap(({ folding }) => folding?.state ?? []);
  const digests = states.map(digestOfState);
  process.send?.({ is: 'views', nodes: states.map(({ node }) => node), digests } satisfies ViewsAnswer);
}

function tellWhenThere(): void {
  const wanted = awaited;
  if (wanted === null || !clients.every(({ changes, isThere }) => isThere && isAfter(changes, wanted)))
    return;
  awaited = null;
  const times = clients.map(({ at }) => at);
  const answer: ClientsAnswer = {
    is: 'there',
    at: Math.max(...times),
    median: median(times),
    bytes,
    failed,
    resets,
    gaps,
    missed,
  };
  [bytes, failed, resets, gaps, missed] = [0, 0, 0, [], 0];
  process.send?.(answer);
}

/** Microseconds, the same clock in every process of the machine. */
function now(): number {
  return Number(process.hrtime.bigint() / 1000n);
}
