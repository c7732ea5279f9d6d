import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** A bill of materials in the form of CycloneDX 1.6, as far as it is used. */
interface BillOfMaterials {
  readonly bomFormat: 'CycloneDX';
  readonly specVersion: '1.6';
  readonly version: 1;
  readonly metadata: { readonly component: Component };
  /** Sorted by their purl. */
  readonly components: readonly Component[];
}

interface Component {
  readonly type: 'application' | 'container' | 'library';
  readonly 'bom-ref': string;
  readonly name: string;
  readonly version: string;
  readonly purl?: string;
  readonly hashes?: readonly { readonly alg: string; readonly content: string }[];
  readonly licenses?: readonly { readonly expression: string }[];
}

interface BillSubject {
  readonly name: string;
  readonly version: string;
  /** sha256:… of the image's configuration. */
  readonly digest: string;
}

/** package-lock.json, as far as it is used. */
interface PackageLock {
  readonly packages: Readonly<Record<string, { readonly integrity?: string }>>;
}

interface NpmPackage {
  readonly name?: string;
  readonly version?: string;
  readonly license?: unknown;
}

const PROGRAM = 'opt/nodewall';
const MODULES = 'node_modules';
const STATUS = 'var/lib/dpkg/status.d';
const BUNDLED = 'console/dist/licenses.txt';
/** Workspaces of this repository: part of the program. */
const OWN = new Set(['ipset-ts', 'nftables-napi']);

/**
 * The npm packages, the Debian packages and the Node.js of an unpacked image, by what is in it: the
 * same image gives the same bytes.
 */
export function billOfMaterials(root: string, subject: BillSubject, lock: PackageLock): BillOfMaterials {
  const { name, version, digest } = subject;
  const components = [
    nodeOf(root),
    ...debianPackages(root),
    ...npmPackages(root, lock),
    ...bundledPackages(root, lock),
  ];
  return {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: {
      component: {
        type: 'container',
        'bom-ref': `${name}@${digest}`,
        name,
        version,
        hashes: [{ alg: 'SHA-256', content: digest.replace('sha256:', '') }],
      },
    },
    components: components.sort((a, b) => (a['bom-ref'] < b['bom-ref'] ? -1 : 1)),
  };
}

function component(parts: Omit<Component, 'bom-ref' | 'purl'> & { readonly purl: string }): Component {
  return { ...parts, 'bom-ref': parts.purl };
}

/** The executable says its own version. */
function nodeOf(root: string): Component {
  const path = ['usr/local/bin/node', 'usr/bin/node'].find((each) => existsSync(join(root, each)));
  if (path === undefined) throw new Error(`${root}: no Node.js`);
  const [, version] = /node-v(\d+\.\d+\.\d+)/.exec(readFileSync(join(root, path), 'latin1')) ?? [];
  if (version === undefined) throw new Error(`${path}: does not say its version`);
  return component({ type: 'application', name: 'node', version, purl: `pkg:generic/node@${version}` });
}

function debianPackages(root: string): Component[] {
  return globSync(`${STATUS}/*`, { cwd: root }).map((path) => {
    const text = readFileSync(join(root, path), 'utf8');
    const field = (name: string): string => {
      const [, value] = new RegExp(`^${name}: (.*)$`, 'm').exec(text) ?? [];
      if (value === undefined) throw new Error(`${path}: no field ${name}`);
      return value;
    };
    const [name, version] = [field('Package'), field('Version')];
    const query = new URLSearchParams({ arch: field('Architecture'), distro: 'debian-12' });
    const purl = `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(version)}?${query}`;
    return component({ type: 'library', name, version, purl });
  });
}

/** Packages inside of packages too. */
function npmPackages(root: string, lock: PackageLock): Component[] {
  const program = join(root, PROGRAM);
  const files = globSync([`**/${MODULES}/*/package.json`, `**/${MODULES}/@*/*/package.json`], {
    cwd: program,
  });
  const found = new Map<string, Component>();
  for (const file of files) {
    const { name, version, license } = JSON.parse(readFileSync(join(program, file), 'utf8')) as NpmPackage;
    if (name === undefined || version === undefined || OWN.has(name)) continue;
    const { integrity } = lock.packages[file.slice(0, -'/package.json'.length)] ?? {};
    const one = npmPackage(name, version, license, integrity);
    found.set(one['bom-ref'], one);
  }
  return [...found.values()];
}

/** Packages that files of the console contain: Vite lists them, with their licences. */
function bundledPackages(root: string, lock: PackageLock): Component[] {
  const text = readFileSync(join(root, PROGRAM, BUNDLED), 'utf8');
  const found = [...text.matchAll(/^## (\S+) - (\S+) \((.+)\)$/gm)].map(
    ([, name = '', version = '', license]) =>
      npmPackage(name, version, license, lock.packages[`${MODULES}/${name}`]?.integrity),
  );
  if (found.length === 0) throw new Error(`${BUNDLED}: lists no package`);
  return found;
}

function npmPackage(
  name: string,
  version: string,
  license: unknown,
  integrity: string | undefined,
): Component {
  return component({
    type: 'library',
    name,
    version,
    purl: `pkg:npm/${name.replace('@', '%40')}@${version}`,
    ...(integrity === undefined ? {} : { hashes: [hashOf(integrity)] }),
    ...(typeof license === 'string' ? { licenses: [{ expression: license }] } : {}),
  });
}

/** Subresource Integrity (`sha512-BASE64`), of the package's archive. */
function hashOf(integrity: string): { alg: string; content: string } {
  const [, bits = '', base64 = ''] = /^sha(\d+)-(.*)$/.exec(integrity) ?? [];
  return { alg: `SHA-${bits}`, content: Buffer.from(base64, 'base64').toString('hex') };
}
