/**
 * One pass over the tracked connections of an empty network namespace, filled first, with the rules
 * of manifests: reading and judging all, then ending those that a further policy denies.
 */

import { execFileSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { Conntrack, TcpSockets } from 'nftables-napi';
import { connectionJudge } from '../../agent/connections/connection-judge.ts';
import { endConnections } from '../../agent/connections/end-connections.ts';
import { OwnAddresses } from '../../agent/connections/node-facts.ts';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { compiler } from '../../controller/compile/compile.ts';
import { nodeViewer } from '../../controller/publish/node-view.ts';
import { loadManifests } from '../../controller/watch/manifests.ts';
import { NO_MEMBERS } from '../../lib/net/member-set.ts';
import { NODE_NAME, portOf } from '../generate/cluster.ts';
import { answer, timed, trialInput } from './trial.ts';

const NODE = '198.18.0.1';
/** A port that no other rule names; every tenth connection is to it. */
const DENIED = 9;

const { manifests, entries } = trialInput<{ manifests: string; entries: number }>();
const { objects } = await loadManifests([manifests]);
const rules = objects.policies.reduce((sum, { spec }) => sum + (spec.ingress?.length ?? 0), 0);
const [first] = objects.policies;
if (first === undefined) throw new Error('no policy');
const ports = [{ protocol: 'UDP', port: DENIED }] as const;
const closing = {
  ...first,
  name: 'closing',
  spec: { ...first.spec, established: 'Recheck', ingress: [{ action: 'Drop', ports }] },
} as const;
const compiled = compiler()({ ...objects, policies: [...objects.policies, closing] });
const state = nodeViewer(NODE_NAME)(compiled);

const lines = Array.from({ length: entries }, (_, i) => {
  const port = i % 10 === 0 ? DENIED : portOf(i % rules);
  const src = `10.${(i >> 16) & 255}.${(i >> 8) & 255}.${i & 255}`;
  return `-A -p udp -s ${src} -d ${NODE} --sport ${1024 + (i % 60_000)} --dport ${port} -t 3600 -u SEEN_REPLY\n`;
});
const file = join(tmpdir(), `conntrack-${process.pid}`);
writeFileSync(file, lines.join(''));
try {
  execFileSync('conntrack', ['-R', file], { stdio: 'ignore' });
} finally {
  rmSync(file);
}
lines.length = 0;

async function pass(isDryRun: boolean) {
  const conntrack = new Conntrack();
  const sockets = new TcpSockets();
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const done = await timed(async () => {
    const facts = { own: new OwnAddresses([NODE]), groups: [0], localPods: NO_MEMBERS };
    const judge = connectionJudge({ state, config: DEFAULT_CONFIG, facts, onlyRecheck: true });
    const { signal } = new AbortController();
    return endConnections({ conntrack, sockets, judge, isDryRun, signal, ended: () => undefined });
  });
  delay.disable();
  await Promise.all([conntrack.close(), sockets.close()]);
  return { ...done, delay: delay.max / 1e6 };
}

const before = process.memoryUsage.rss();
const read = await pass(true);
const ended = await pass(false);
if (read.result.examined < entries || ended.result.ended < entries / 10) {
  throw new Error(`examined ${read.result.examined}, ended ${ended.result.ended}`);
}
answer({
  read: read.milliseconds,
  end: ended.milliseconds,
  cpu: read.cpu,
  delay: Math.max(read.delay, ended.delay),
  memory: (process.memoryUsage.rss() - before) / 2 ** 20,
});
