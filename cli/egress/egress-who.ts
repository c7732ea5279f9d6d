import { existsSync } from 'node:fs';
import { join } from 'node:path';
import {
  EGRESS_RECORDS,
  type Found,
  findBindings,
  type GapRecord,
  type GatewayBinding,
} from '../../agent/egress/record/egress-record.ts';
import { recordLines } from '../../agent/record/record-files.ts';
import { toTime } from '../../agent/record/record-filter.ts';
import { type Address, formatAddress, parseAddress } from '../../lib/net/address.ts';
import { CommandError, EXIT, type ExitStatus } from '../../lib/process/exit.ts';
import { present } from '../../lib/sharing/present.ts';
import type { MachineOptions, Printed } from '../command-options.ts';
import { loadConfig } from '../load.ts';
import { json, print, table } from '../output.ts';
import { endText } from '../record-text.ts';
import { unreadable } from '../records.ts';
import { loadEgressObjects } from './egress-status.ts';

interface EgressWhoOptions extends MachineOptions, Printed<'text' | 'json'> {
  readonly at?: string;
  readonly manifests?: readonly string[];
  readonly kubeconfig?: string;
}

interface Now {
  /** The pod that has the address now. */
  readonly podNow?: string;
  /** The policy that decides about such connections now. */
  readonly policyNow?: string;
}

/**
 * `nodewall egress who`: the pods that had an address and port, from the records of this gateway.
 */
export async function egressWho(
  target: string,
  files: readonly string[],
  options: EgressWhoOptions,
): Promise<ExitStatus> {
  const { address, port } = toTarget(target);
  const during = options.at === undefined ? null : toInterval(options.at, Date.now());
  await loadConfig(options.config);
  const found = await findBindings(linesOf(pathsOf(files, options.stateDir)), {
    address: formatAddress(address),
    port,
    during,
  });
  const now = await namer(options);
  const bindings = found.bindings.map((one) => ({ ...one, ...now(one) }));
  sayGaps(found);
  if (options.output === 'json')
    await print(json({ target, at: options.at ?? null, bindings, gaps: found.gaps }));
  else if (bindings.length > 0) await print(whoText(bindings));
  if (bindings.length === 0)
    process.stderr.write(`no record of ${target}${options.at === undefined ? '' : ` at ${options.at}`}\n`);
  return EXIT.done;
}

/** `ADDRESS`, `ADDRESS:PORT`, `[IPv6]:PORT`. */
function toTarget(text: string): { readonly address: Address; readonly port: number | undefined } {
  const match = /^\[([0-9a-fA-F:.]+)\](?::(\d{1,5}))?$/.exec(text) ?? /^([\d.]+):(\d{1,5})$/.exec(text);
  const address = parseAddress(match?.[1] ?? text);
  const port = match?.[2] === undefined ? undefined : Number(match[2]);
  if (address === null || (port !== undefined && port > 65_535)) {
    throw new CommandError(
      EXIT.usage,
      `${JSON.stringify(text)}: must be ADDRESS:PORT, as in 198.51.100.20:40001 or [2001:db8::14]:40001`,
    );
  }
  return { address, port };
}

/** A time without a fraction of a second stands for its whole second. */
function toInterval(text: string, now: number): { readonly from: number; readonly to: number } {
  const from = toTime(text, now);
  if (from === null) {
    throw new CommandError(
      EXIT.usage,
      `--at: ${JSON.stringify(text)}: must be as in 10m (ago), or 2026-11-21T15:00:00Z`,
    );
  }
  return { from, to: from % 1000 === 0 ? from + 999 : from };
}

function pathsOf(files: readonly string[], stateDir: string): readonly string[] {
  const paths = files.length > 0 ? files : [join(stateDir, EGRESS_RECORDS)];
  for (const path of paths) {
    if (existsSync(path)) continue;
    const why =
      files.length > 0
        ? ''
        : '. Set log.egressConnections in the configuration of its agent, or run this on the gateway';
    throw new CommandError(EXIT.invalid, `there are no records: ${path} does not exist${why}`);
  }
  return paths;
}

async function* linesOf(paths: readonly string[]): AsyncGenerator<string | null> {
  try {
    for (const path of paths) yield* recordLines(path, { follow: false });
  } catch (error) {
    throw unreadable(error, 'the records');
  }
}

/**
 * Names pods, and the policies that decide about such connections, by the objects as they are now.
 */
async function namer({
  manifests,
  kubeconfig,
  config: file,
}: EgressWhoOptions): Promise<(one: GatewayBinding) => Now> {
  if (manifests === undefined && kubeconfig === undefined) return () => ({});
  const { objects, config } = await loadEgressObjects({ manifests, kubeconfig, config: file });
  const { compileEgress } = await import('../../controller/egress/compile-egress.ts');
  const { egressExplainer } = await import('../../controller/egress/decide.ts');
  const explain = egressExplainer(objects, compileEgress(objects, config.egress));
  const pods = new Map(
    objects.pods
      .filter(({ hostNetwork }) => hostNetwork !== true)
      .flatMap(({ namespace, name, addresses }) =>
        addresses.map((address) => [address, `${namespace}/${name}`] as const),
      ),
  );
  return ({ src, dst }) => {
    const podNow = pods.get(src);
    const { policy } = explain({ traffic: 'Egress', src, dst });
    return {
      ...present({ podNow }),
      ...(policy === null ? {} : { policyNow: policy }),
    };
  };
}

function sayGaps({ gaps, bad }: Found): void {
  const last = gaps.slice(-SHOWN_GAPS).map(gapText);
  if (last.length > 0) {
    const more = gaps.length > last.length ? `, and ${gaps.length - last.length} earlier ones` : '';
    process.stderr.write(`connections may be missing: ${last.join(', ')}${more}\n`);
  }
  if (bad > 0) process.stderr.write(`left out ${bad} lines that are not valid records\n`);
}

const SHOWN_GAPS = 3;

function gapText({ time, reason, lost }: GapRecord): string {
  switch (reason) {
    case 'start':
      return `the agent started at ${time}`;
    case 'overrun':
      return `the kernel discarded events at ${time}`;
    case 'lost':
      return `${lost ?? 'some'} lines could not be written at ${time}`;
  }
}

function whoText(bindings: readonly (GatewayBinding & Now)[]): string {
  const rows = bindings.map((one) => [
    one.begun ?? 'before the records',
    one.ended ?? 'no end',
    String(one.protocol),
    endText(one.src, one.srcPort),
    [one.podNow === undefined ? '' : `${one.podNow} now`, one.podNode ?? '']
      .filter((text) => text !== '')
      .join(', ') || '-',
    endText(one.address, one.port),
    endText(one.dst, one.dstPort),
    one.policy ?? (one.policyNow === undefined ? '-' : `${one.policyNow} now`),
    one.bytesOut === undefined ? '-' : `${one.bytesOut} out, ${one.bytesIn} in`,
  ]);
  return table(
    ['begun', 'ended', 'protocol', 'pod address', 'pod', 'seen as', 'destination', 'policy', 'bytes'],
    rows,
  );
}
