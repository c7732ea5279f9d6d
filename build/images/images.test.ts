import assert from 'node:assert/strict';
import { globSync, readFileSync, statSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { createNamespace } from '../../test/netns/namespace.ts';
import { output } from '../programs/command.ts';
import { ROOT, type Scratch, scratchFolder } from '../programs/folder.ts';
import { billOfMaterials } from './bill-of-materials.ts';
import { buildImages, type ImageTarget, TARGETS, type UnpackedImage, unpackImage } from './build.ts';

const LIMITS: { readonly [target in ImageTarget]: number } = { controller: 150e6, agent: 155e6 };
/** Names of what starts other programs, or brings new ones. */
const SHELLS = /^(ba|da|z|k|c|tc|a|fi)?sh$|^(busybox|env|perl.*|python.*|apt.*|dpkg.*|npm|npx)$/;
const KERNEL_LIBRARIES = /^lib(nft|mnl|xt|ip[46]tc|ipset|netfilter|nfnetlink)|\.node$|tables|^ipset$/;
/** As the images say; chroot itself is looked for in it, too. */
const ENV = { PATH: '/usr/local/bin:/usr/sbin:/usr/bin' };
/** Loads the files in the arguments, as a program that is asked for its version. */
const LOAD = "for (const path of process.argv.splice(1, Infinity, 'nodewall', '--version')) require(path)";

describe('images', function () {
  this.timeout(120_000);
  const unpacked = new Map<ImageTarget, UnpackedImage>();
  let scratch: Scratch;
  before(async function () {
    this.timeout(1_800_000);
    const images = await buildImages();
    scratch = await scratchFolder('nodewall-images-');
    for (const target of TARGETS) {
      const folder = join(scratch.path, target);
      await mkdir(folder);
      unpacked.set(target, await unpackImage(images[target], folder));
    }
  });
  after(() => scratch?.remove());

  const of = (target: ImageTarget): UnpackedImage => unpacked.get(target) ?? assert.fail();
  const inside = (target: ImageTarget, argv: readonly string[]): Promise<string> => {
    const user = of(target).config.User ?? '';
    return output(['chroot', `--userspec=${user}`, of(target).root, ...argv], { env: ENV });
  };
  const files = (target: ImageTarget, pattern = '**'): string[] =>
    globSync(pattern, { cwd: of(target).root });

  for (const target of TARGETS) {
    describe(target, () => {
      it('stays below its size limit', () => {
        const size = of(target).layers.reduce((sum, layer) => sum + layer.size, 0);
        assert.ok(size <= LIMITS[target], `${size} bytes`);
      });

      it('has the pages of the console, of less than 1 MB', () => {
        const pages = files(target, 'opt/nodewall/console/**').filter((path) => path.includes('.'));
        assert.ok(pages.includes('opt/nodewall/console/dist/index.html'), pages.join(' '));
        assert.ok(pages.some((path) => /app-[\w-]{8}\.js\.br$/.test(path)));
        const bytes = pages.reduce((sum, path) => sum + statSync(join(of(target).root, path)).size, 0);
        assert.ok(bytes < 1e6, `${bytes} bytes`);
      });

      it('has no shell, no package manager, and no setuid file', () => {
        const paths = files(target).map((path) => join(of(target).root, path));
        const programs = paths.filter((path) => !path.includes('/opt/nodewall/node_modules/'));
        const shells = programs.filter((path) => SHELLS.test(path.split('/').at(-1) ?? ''));
        assert.deepEqual(
          shells.filter((path) => !path.includes('/var/lib/dpkg')),
          [],
        );
        const marked = paths.filter((path) => {
          const stat = statSync(path, { throwIfNoEntry: false });
          return stat?.isFile() && (stat.mode & 0o6022) !== 0;
        });
        assert.deepEqual(marked, []);
        const scripts = paths.filter((path) => {
          const stat = statSync(path, { throwIfNoEntry: false });
          return path.includes('/usr/') && stat?.isFile() && (stat.mode & 0o111) !== 0 && !isElf(path);
        });
        assert.deepEqual(scripts, [], 'nothing would run them');
      });

      it('runs nodewall', async () => {
        const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
        assert.equal(await inside(target, ['nodewall', '--version']), `${version}\n`);
        assert.match(await inside(target, ['nodewall', '--help']), /^Usage: nodewall/);
        assert.match(await inside(target, ['nodewall', target, '--help']), /--metrics-listen/);
      });

      it('has everything that its program loads', async () => {
        const chunks = files(target, 'opt/nodewall/chunks/*.cjs').map((path) => `/${path}`);
        assert.ok(chunks.length > 100, `${chunks.length} files`);
        await inside(target, ['node', '--eval', LOAD, '--', ...chunks.sort()]);
      });

      it('has the program alone of the packages, and their licences', () => {
        const code = files(target, 'opt/nodewall/node_modules/**/*.{js,mjs,cjs,ts,node}').filter((path) =>
          statSync(join(of(target).root, path)).isFile(),
        );
        assert.deepEqual(code, []);
        const packages = files(target, 'opt/nodewall/node_modules/{*,@*/*}/package.json').map(dirname);
        const without = packages.filter(
          (path) => !files(target, `${path}/*`).some((file) => /licen[cs]e/i.test(basename(file))),
        );
        assert.deepEqual(without, []);
      });

      it('has the time 0 in all files, all owned by root', async () => {
        const found = await output([
          ...['find', of(target).root, '-mindepth', '1'],
          ...[
            '(',
            '-newermt',
            '@0',
            '-o',
            '!',
            '-newermt',
            '@-1',
            '-o',
            '!',
            '-user',
            '0',
            '-o',
            '!',
            '-group',
            '0',
            ')',
          ],
        ]);
        assert.equal(found, '');
      });

      it('has a bill of materials with all that is in it, the same each time', () => {
        const subject = { name: target, version: '1.2.3', digest: of(target).digest };
        const lock = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'));
        const bill = billOfMaterials(of(target).root, subject, lock);
        assert.deepEqual(billOfMaterials(of(target).root, subject, lock), bill);
        const { name, config } = { name: of(target).digest, config: bill.metadata.component };
        assert.deepEqual(config.hashes, [{ alg: 'SHA-256', content: name.slice('sha256:'.length) }]);
        const kinds = Map.groupBy(bill.components, ({ purl }) => purl?.split('/')[0]);
        const names = (kind: string): string[] => (kinds.get(kind) ?? []).map((each) => each.name).sort();
        assert.deepEqual(
          names('pkg:deb'),
          files(target, 'var/lib/dpkg/status.d/*')
            .map((path) => path.split('/').at(-1))
            .sort(),
        );
        const modules = files(target, 'opt/nodewall/node_modules/{*,@*/*}/package.json').map((path) =>
          path.replace(/^opt\/nodewall\/node_modules\/(.*)\/package\.json$/, '$1'),
        );
        const own = ['ipset-ts', 'nftables-napi'];
        for (const module of modules)
          assert.equal(names('pkg:npm').includes(module), !own.includes(module), module);
        assert.ok(names('pkg:npm').includes('lit'), 'the console contains it');
        for (const each of kinds.get('pkg:npm') ?? [])
          assert.match(each.hashes?.[0]?.content ?? '', /^[0-9a-f]{128}$/, each.name);
        const { dependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
        assert.deepEqual(
          kinds.get('pkg:generic')?.map(({ purl }) => purl),
          [`pkg:generic/node@${dependencies.node}`],
        );
        const references = bill.components.map((each) => each['bom-ref']);
        assert.equal(new Set(references).size, references.length);
      });

      it('lists the Debian packages of its libraries', () => {
        const names = files(target, 'var/lib/dpkg/status.d/*').map((path) => path.split('/').at(-1) ?? '');
        for (const name of ['libc6', 'libstdc++6']) assert.ok(names.includes(name), name);
        for (const name of names) {
          const status = readFileSync(join(of(target).root, 'var/lib/dpkg/status.d', name), 'utf8');
          assert.match(status, /^Package: .*\n(.*\n)*Version: /);
        }
      });
    });
  }

  // After the others: iptables-legacy leaves its lock.
  describe('the kernel', () => {
    it('gives the controller no kernel libraries, and the user nobody', () => {
      const found = files('controller', 'usr/**').filter((path) =>
        KERNEL_LIBRARIES.test(path.split('/').at(-1) ?? ''),
      );
      assert.deepEqual(found, []);
      assert.equal(files('controller', '**/*.node').length, 0);
      assert.equal(of('controller').config.User, '65532:65532');
    });

    it('gives the agent both dataplanes', async () => {
      const { root } = of('agent');
      const namespace = await createNamespace('images');
      try {
        const run = (...argv: string[]) => namespace.run(['chroot', root, ...argv]);
        const addon = '/opt/nodewall/agent/nftables-napi/build/Release/nftables_napi.node';
        await run('node', '--eval', LOAD, '--', addon);
        for (const variant of ['nft', 'legacy'])
          for (const command of ['iptables', 'ip6tables']) {
            const { stdout } = await run(`${command}-${variant}`, '--version');
            assert.match(stdout, variant === 'nft' ? /nf_tables/ : /legacy/);
            await run(`${command}-${variant}-save`);
            await run(
              `${command}-${variant}`,
              '-A',
              'INPUT',
              '-p',
              'tcp',
              '-m',
              'conntrack',
              '--ctstate',
              'NEW',
              '-j',
              'DROP',
            );
          }
        await run('ipset', 'create', 'probe', 'hash:ip');
        const { stdout } = await run('ipset', 'save');
        assert.match(stdout, /create probe hash:ip/);
      } finally {
        await namespace.close();
      }
    });
  });
});

function isElf(path: string): boolean {
  return readFileSync(path).subarray(0, 4).toString('latin1') === '\x7fELF';
}
