/** Open vSwitch in a network namespace, by the kernel's datapath, with a folder of its own. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir, uptime } from 'node:os';
import { join } from 'node:path';
import { outputIfThere, run } from '../../build/programs/command.ts';
import { type Namespace, stop } from '../netns/namespace.ts';
import { until } from './until.ts';

const SCHEMA = '/usr/share/openvswitch/vswitch.ovsschema';

/** Seconds. */
const COUNTED_AFTER = 10;

export interface OpenVswitch {
  /** `ovs-vsctl …`; ends when the switch has done it. */
  vsctl(...args: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

/** What is missing for it; null: nothing. */
export async function lacksOpenVswitch(): Promise<string | null> {
  if ((await outputIfThere(['ovs-vswitchd', '--version'])) === null) return 'package openvswitch-switch';
  const { code } = await run(['modprobe', 'openvswitch']);
  return code === 0 ? null : 'this kernel has none';
}

export async function startOpenVswitch(namespace: Namespace): Promise<OpenVswitch> {
  const folder = await mkdtemp(join(tmpdir(), 'nodewall-ovs-'));
  const [file, socket] = [join(folder, 'conf.db'), join(folder, 'db.sock')];
  const options = { env: { ...process.env, OVS_RUNDIR: folder, OVS_LOGDIR: folder } };
  await namespace.run(['ovsdb-tool', 'create', file, SCHEMA], options);
  const database = namespace.spawn(['ovsdb-server', file, `--remote=punix:${socket}`], options);
  const vsctl = (...args: readonly string[]) => ['ovs-vsctl', `--db=unix:${socket}`, '--timeout=60', ...args];
  await until('the database answers', async () => {
    const { status } = await namespace.run(vsctl('--no-wait', 'init'), { ...options, anyStatus: true });
    return status === 0;
  });
  // Earlier it counts no processors (COUNT_CPU_UPDATE_TIME_MS), and handles no packets with one.
  await until('the machine is up for ten seconds', async () => uptime() > COUNTED_AFTER);
  const daemon = namespace.spawn(['ovs-vswitchd', `unix:${socket}`], options);
  return {
    vsctl: async (...args) => void (await namespace.run(vsctl(...args), options)),
    async close() {
      await stop(daemon, 'SIGTERM');
      await stop(database, 'SIGTERM');
      await rm(folder, { recursive: true });
    },
  };
}
