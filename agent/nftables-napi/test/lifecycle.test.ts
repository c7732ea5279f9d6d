import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { readdirSync, readlinkSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import {
  BegunMonitor,
  ConntrackMonitor,
  LinkSocket,
  Monitor,
  Netlink,
  Nflog,
  Nftables,
  RouteMonitor,
  RouteSocket,
} from '../lib/index.ts';
import { inNamespace, ip, nft } from './netns.ts';

const library = path.join(import.meta.dirname, '../lib/index.ts');
const set = { family: 'inet', table: 't', set: 's', keyLength: 4 } as const;
const keys = Uint8Array.of(10, 0, 0, 1);

interface Method {
  name: string;
  make: () => { close(): Promise<void> };
  call: (made: never) => Promise<unknown>;
  wrong: (made: never) => Promise<unknown>;
}

type Call<Made> = (made: Made) => Promise<unknown>;

/** By name: a call, and one with a wrong argument; the second is absent without arguments. */
function methodsOf<Made extends { close(): Promise<void> }>(
  make: () => Made,
  calls: Readonly<Record<string, readonly [call: Call<Made>, wrong?: Call<Made>]>>,
): Method[] {
  const noArguments = (): Promise<never> => Promise.reject(new TypeError('takes no arguments'));
  return Object.entries(calls).map(([name, [call, wrong = noArguments]]) => ({ name, make, call, wrong }));
}

const nothing = undefined as never;
const noNexthop = {
  operation: 'delete',
  kind: 'nexthop',
  nexthop: { id: 99, protocol: 0, link: 0, via: new Uint8Array(0), group: [] },
} as const;
const methods: Method[] = [
  ...methodsOf(() => new Nftables(), {
    'Nftables.run': [(it) => it.run('add table inet t'), (it) => it.run(nothing)],
    'Nftables.list': [(it) => it.list('tables')],
  }),
  ...methodsOf(() => new Netlink(), {
    'Netlink.batch': [(it) => it.batch([{ op: 'add', ...set, keys }]), (it) => it.batch(nothing)],
    'Netlink.elements': [(it) => it.elements(set), (it) => it.elements(nothing)],
    'Netlink.snapshot': [(it) => it.snapshot('inet', 't'), (it) => it.snapshot(nothing, 't')],
    'Netlink.generation': [(it) => it.generation()],
  }),
  ...methodsOf(() => new LinkSocket(), {
    'LinkSocket.setGroups': [(it) => it.setGroups([{ index: 1, group: 0 }]), (it) => it.setGroups(nothing)],
  }),
  ...methodsOf(() => new RouteSocket(), {
    'RouteSocket.links': [(it) => it.links()],
    'RouteSocket.linksAt': [(it) => it.linksAt([1, 2]), (it) => it.linksAt(nothing)],
    'RouteSocket.rules': [(it) => it.rules()],
    'RouteSocket.routes': [(it) => it.routes({ family: 4, table: 255 }), (it) => it.routes(nothing)],
    'RouteSocket.change': [(it) => it.change([noNexthop]), (it) => it.change(nothing)],
  }),
];

/** Each listener, with a way to make it hear something. */
const listeners: { name: string; make: (heard: () => void) => Listening; provoke: () => void }[] = [
  {
    name: 'Monitor',
    make: (heard) => new Monitor({ family: 'inet', table: 't' }, heard),
    provoke: () => nft('add chain inet t c; delete chain inet t c'),
  },
  {
    name: 'RouteMonitor',
    make: (heard) => new RouteMonitor({}, heard),
    provoke: () => {
      ip('link', 'set', 'lo', 'down');
      ip('link', 'set', 'lo', 'up');
    },
  },
  {
    name: 'BegunMonitor',
    make: (heard) => new BegunMonitor({ pause: 1 }, heard),
    provoke: () => {
      const ends = ['-s', '10.0.0.1', '-d', '10.0.0.2', '--sport', '1', '--dport', '2'];
      spawnSync('conntrack', ['-I', '-p', 'udp', ...ends, '-t', '9']);
      spawnSync('conntrack', ['-D', '-p', 'udp']);
    },
  },
  {
    name: 'ConntrackMonitor',
    make: (heard) => new ConntrackMonitor({ mark: 0, mask: 0 }, heard),
    provoke: () => {
      const ends = ['-s', '10.0.0.1', '-d', '10.0.0.2', '--sport', '1', '--dport', '2'];
      spawnSync('conntrack', ['-I', '-p', 'udp', ...ends, '-t', '9']);
      spawnSync('conntrack', ['-D', '-p', 'udp']);
    },
  },
  {
    name: 'Nflog',
    make: (heard) => new Nflog({ group: freeGroup++ }, heard),
    provoke: () => {
      const groups = Array.from({ length: freeGroup }, (_, group) => `add rule inet t o log group ${group}`);
      nft(`add chain inet t o { type filter hook output priority 0; }; ${groups.join('; ')}`);
      ip('link', 'set', 'lo', 'up');
      const socket = createSocket('udp4');
      socket.send('x', 9, '127.0.0.1', () => socket.close());
    },
  },
];
let freeGroup = 0;

interface Listening {
  close(): Promise<void>;
  ref(): unknown;
  unref(): unknown;
}

/** The open netlink and other sockets of this process. */
function sockets(): number {
  const targets = readdirSync('/proc/self/fd').map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      return ''; // the directory's own descriptor, gone by now
    }
  });
  return targets.filter((target) => target.startsWith('socket:')).length;
}

/** Runs a module's text in a worker thread, and gives its exit code. */
function inWorker(text: string, terminateAfter?: number): Promise<number> {
  const worker = new Worker(
    `const { threadId } = require('node:worker_threads'); import('${library}').then(async ({ Nftables, Netlink, Monitor, LinkSocket, RouteMonitor, Nflog }) => { ${text} })`,
    { eval: true },
  );
  return new Promise((resolve, reject) => {
    worker.on('error', reject);
    worker.on('exit', resolve);
    if (terminateAfter !== undefined)
      worker.once('message', () => setTimeout(() => worker.terminate(), terminateAfter));
  });
}

inNamespace(import.meta.filename, () => {
  describe('lifecycle', () => {
    beforeEach(() => {
      nft('add table inet t; add set inet t s { type ipv4_addr; }');
    });
    afterEach(() => {
      nft('flush', 'ruleset');
    });

    for (const { name, make, call, wrong } of methods) {
      describe(name, () => {
        it('works while other calls of the same object run', async () => {
          const made = make();
          await call(made as never);
          await Promise.all([call(made as never), call(made as never), call(made as never)]);
          await made.close();
        });

        it('finishes calls made before close, rejects later ones', async () => {
          const made = make();
          const before = call(made as never);
          const closing = made.close();
          const after = call(made as never);
          await assert.rejects(after, { code: 'CLOSED' });
          await before;
          await closing;
          await made.close();
          await assert.rejects(call(made as never), { code: 'CLOSED' });
        });

        it('rejects a wrong type, and keeps working', async () => {
          const made = make();
          let result: Promise<unknown> | undefined;
          assert.doesNotThrow(() => {
            result = wrong(made as never);
          });
          await assert.rejects(result ?? Promise.resolve(), TypeError);
          await call(made as never);
          await made.close();
        });

        it('works in two objects at once', async () => {
          const made = [make(), make(), make(), make(), make(), make()];
          await Promise.all(made.flatMap((it) => [call(it as never), call(it as never)]));
          await Promise.all(made.map((it) => it.close()));
        });
      });
    }

    // The thread reads both wakes at once, about once in 6,000 times: all by `npm run test:long`.
    const times = process.env.NODEWALL_RUNS === undefined ? 2_000 : 20_000;
    it('closes while the thread hears that a batch was taken, many times', async () => {
      ip('link', 'set', 'lo', 'up');
      const links = new LinkSocket();
      for (let i = 0; i < times; i++) {
        const { promise: heard, resolve } = Promise.withResolvers<void>();
        const monitor = new RouteMonitor({}, () => resolve());
        await links.setGroups([{ index: 1, group: 1 + (i % 1000) }]);
        await heard;
        await monitor.close();
      }
      await links.close();
    });

    for (const { name, make, provoke } of listeners) {
      describe(name, () => {
        it('works in several independent objects at once, and reports nothing after close', async () => {
          const heard = [0, 0, 0];
          const made = heard.map((_, i) => make(() => heard.splice(i, 1, 1)));
          await made[1]?.close();
          provoke();
          for (let i = 0; heard.join() !== '1,0,1' && i < 200; i++) await sleep(10);
          assert.deepEqual(heard, [1, 0, 1]);
          await Promise.all(made.map((it) => it.close()));
        });

        it('is not collected while it listens', async () => {
          let heard = 0;
          const close = (() => {
            const made = new WeakRef(make(() => heard++));
            return () => made.deref()?.close();
          })();
          for (let i = 0; i < 5; i++) {
            globalThis.gc?.();
            await sleep(1);
          }
          provoke();
          for (let i = 0; heard === 0 && i < 200; i++) await sleep(10);
          await close();
          assert.ok(heard > 0);
        });

        it('can be closed in its own listener, and while calls are pending', async () => {
          const before = sockets();
          let closed: Promise<void> | undefined;
          const made = make(() => {
            closed ??= made.close();
          });
          provoke();
          for (let i = 0; !closed && i < 200; i++) await sleep(10);
          await closed;
          for (let i = 0; sockets() > before && i < 200; i++) await sleep(10);
          assert.equal(sockets(), before);
          for (let i = 0; i < 20; i++) {
            const other = make(() => {});
            if (i % 10 === 0) provoke();
            await Promise.all([other.close(), other.close()]);
            other.ref();
            other.unref();
          }
          for (let i = 0; sockets() > before && i < 200; i++) await sleep(10);
          assert.equal(sockets(), before);
        });
      });
    }

    it('accepts 100,000 group changes in one call', async () => {
      const links = new LinkSocket();
      const changes = Array.from({ length: 100_000 }, (_, i) => ({ index: 1_000_000 + i, group: i }));
      const answers = await links.setGroups(changes);
      assert.equal(answers.length, 100_000);
      assert.ok(answers.every((answer) => answer?.code === 'ENODEV'));
      await links.close();
    }).timeout(60_000);

    it('runs commands in the order they were given', async () => {
      const context = new Nftables();
      const done: number[] = [];
      const texts = [
        'add chain inet t a',
        'add rule inet t a accept',
        'wrong',
        'flush chain inet t a',
        'delete chain inet t a',
      ];
      await Promise.allSettled(texts.map((text, i) => context.run(text).finally(() => done.push(i))));
      assert.deepEqual(done, [0, 1, 2, 3, 4]);
      assert.doesNotMatch(nft('list', 'ruleset'), /chain/);
      await context.close();
    });

    it('does not block the event loop', async () => {
      const context = new Nftables();
      const lines = Array.from(
        { length: 5_000 },
        (_, i) => `add rule inet t c ip saddr 10.${i >> 8}.${i & 255}.1 accept`,
      );
      let longest = 0;
      let last = performance.now();
      const timer = setInterval(() => {
        longest = Math.max(longest, performance.now() - last);
        last = performance.now();
      }, 1);
      const began = performance.now();
      await context.run(`add chain inet t c\n${lines.join('\n')}`);
      const took = performance.now() - began;
      clearInterval(timer);
      assert.ok(longest < took / 2, `${longest} ms of ${took} ms`);
      await context.close();
    });

    it('frees contexts and sockets that were not closed', async () => {
      const before = sockets();
      await (async () => {
        for (let i = 0; i < 40; i++) {
          await new Nftables().list('tables');
          await new Netlink().generation();
          await new RouteSocket().links();
        }
      })();
      assert.ok(sockets() >= before + 60, 'the objects have sockets');
      for (let i = 0; i < 50 && sockets() > before; i++) {
        globalThis.gc?.();
        await sleep(10);
      }
      assert.equal(sockets(), before);
    });

    it('frees closed objects at once, and only once', async () => {
      const before = sockets();
      const made = [
        new Nftables(),
        new Netlink(),
        new Monitor({ family: 'inet', table: 't' }, () => {}),
        new LinkSocket(),
        new RouteSocket(),
        new RouteMonitor({}, () => {}),
        new Nflog({ group: 1 }, () => {}),
      ];
      await Promise.all(made.flatMap((it) => [it.close(), it.close()]));
      assert.equal(sockets(), before);
      globalThis.gc?.();
      await sleep(10);
      assert.equal(sockets(), before);
    });

    it('does not collect a context with pending work', async () => {
      const results = Array.from({ length: 20 }, () => new Nftables().list('tables'));
      for (let i = 0; i < 5; i++) {
        globalThis.gc?.();
        await sleep(1);
      }
      for (const result of await Promise.all(results)) assert.ok(result.length >= 2);
    });

    it('works in worker threads, beside the main one', async () => {
      const text = `const context = new Nftables(), netlink = new Netlink(), links = new LinkSocket();
        const monitor = new RouteMonitor({}, () => {}), nflog = new Nflog({ group: 100 + threadId }, () => {});
        for (let i = 0; i < 20; i++)
          await Promise.all([context.list('tables'), netlink.snapshot('inet', 't'), links.setGroups([{ index: 1, group: 0 }])]);
        await Promise.all([context, netlink, links, monitor, nflog].map((it) => it.close()));`;
      const own = new Nftables();
      const codes = await Promise.all([
        inWorker(text),
        inWorker(text),
        inWorker(text),
        own.list('tables').then(() => 0),
      ]);
      assert.deepEqual(codes, [0, 0, 0, 0]);
      await own.close();
    });

    it('survives worker threads that end without closing, or are terminated during work', async () => {
      const before = sockets();
      const forgets = `new Nftables().list('tables'); new Netlink().generation();
        new Monitor({ family: 'inet', table: 't' }, () => {}).unref();
        new LinkSocket(); new RouteMonitor({}, () => {}).unref(); new Nflog({ group: 3 }, () => {}).unref();`;
      assert.equal(await inWorker(forgets), 0);
      const busy = `const { parentPort } = await import('node:worker_threads');
        const context = new Nftables(), netlink = new Netlink();
        new Monitor({ family: 'inet', table: 't' }, () => {});
        const links = new LinkSocket();
        new RouteMonitor({}, () => {});
        new Nflog({ group: 3 }, () => {});
        const { createSocket } = await import('node:dgram');
        const socket = createSocket('udp4');
        parentPort.postMessage('go');
        for (;;) {
          socket.send('x', 9, '127.0.0.1');
          await Promise.all([context.run('add chain inet t c; delete chain inet t c'), netlink.generation(), links.setGroups([{ index: 1, group: 0 }])]);
        }`;
      ip('link', 'set', 'lo', 'up');
      nft('add chain inet t o { type filter hook output priority 0; }; add rule inet t o log group 3');
      for (let i = 0; i < 10; i++) await inWorker(busy, i * 3);
      for (let i = 0; i < 50 && sockets() > before; i++) await sleep(10);
      assert.equal(sockets(), before);
    }).timeout(60_000);
  });
});
