import type { IncomingMessage } from 'node:http';
import type { NodeReport } from '../../apis/stream.ts';
import { type Answer, allowed, jsonBody, noNode, notYet, refused } from './answer.ts';
import type { Identity } from './auth.ts';
import type { Hub } from './hub.ts';
import type { NodeReports } from './node-reports.ts';
import { forbidden, notFromPeer, type PeerOptions, type PermissionOptions } from './permission.ts';
import { parseReport } from './report.ts';
import { MOST_BATCH, parseBatch, type ReportBatch } from './report-batch.ts';

export interface ReportOptions extends PermissionOptions, PeerOptions {
  readonly hub: Pick<Hub, 'ready' | 'has' | 'nodes'>;
  /** Updated here. */
  readonly reports: NodeReports;
  /** Milliseconds since 1970. */
  readonly date: () => number;
  /** Bytes. */
  readonly mostBody: number;
  readonly onReport: (report: NodeReport, from: 'agent' | 'controller') => void;
}

/** An agent reports to this controller. */
export async function report(
  options: ReportOptions,
  { request, identity }: { readonly request: IncomingMessage; readonly identity: Identity },
  name: string,
): Promise<Answer> {
  const { hub, reports, mostBody, onReport, date } = options;
  const denied = await forbidden(options, identity, { verb: 'update', subresource: 'status', name });
  if (denied !== null) return denied;
  if (!hub.ready) return notYet();
  if (!hub.has(name)) return noNode(name);
  const value = await jsonBody(request, mostBody, 'the report');
  if ('failure' in value) return value;
  const found = parseReport(value.json, name);
  if ('problems' in found) return refused('Invalid', found.problems.join('; '));
  // Uses the controller's clock: with a node's wrong clock, an agent that stopped would look alive.
  const parsed = { ...found, time: new Date(date()).toISOString() };
  reports.take({ report: parsed, age: 0 });
  reports.forgetDeleted(hub.nodes());
  onReport(parsed, 'agent');
  return { code: 204, body: null };
}

/** Another controller passes agents' reports on, or asks for all. */
export async function passedOn(options: ReportOptions, request: IncomingMessage): Promise<Answer> {
  const { reports, onReport } = options;
  const wrong = allowed(request, ['GET', 'POST']);
  if (wrong !== null) return wrong;
  const stranger = await notFromPeer(options, request);
  if (stranger !== null) return stranger;
  if (request.method === 'GET') {
    const all = [...reports.nodes()].flatMap((node) => reports.aged(node) ?? []);
    return { code: 200, body: { reports: all } satisfies ReportBatch };
  }
  const value = await jsonBody(request, MOST_BATCH, 'the batch');
  if ('failure' in value) return value;
  const batch = parseBatch(value.json);
  if ('problem' in batch) return refused('Invalid', batch.problem);
  for (const one of batch.reports) if (reports.take(one)) onReport(one.report, 'controller');
  return { code: 200, body: {} };
}
