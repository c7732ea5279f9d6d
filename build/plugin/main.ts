/** `npm run plugin`: the kubectl plugin's executables, one archive a platform, and plugin.yaml. */

import { mkdir, stat, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { type Archive, krewManifest, makeArchive } from './archive.ts';
import { bundlePlugin } from './bundle.ts';
import { PLATFORMS, platformName } from './platforms.ts';

const HELP = `usage: npm run plugin -- FOLDER [--from URL] [--only OS-ARCH]...

Writes kubectl-nodewall-OS-ARCH.tar.gz for ${PLATFORMS.map(platformName).join(', ')},
and with --from plugin.yaml for kubectl krew, whose URIs are below URL.

Example:
  npm run plugin -- /tmp/plugin --from https://downloads.example.com/nodewall/v0.1.0
`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    from: { type: 'string' },
    only: { type: 'string', multiple: true, default: PLATFORMS.map(platformName) },
    help: { type: 'boolean', short: 'h', default: false },
  },
});
const [folder] = positionals;
const unknown = values.only.filter((name) => !PLATFORMS.some((one) => platformName(one) === name));
if (values.help) process.stdout.write(HELP);
else if (
  folder === undefined ||
  unknown.length > 0 ||
  (values.from !== undefined && !URL.canParse(values.from))
) {
  process.stderr.write(HELP);
  process.exitCode = 2;
} else {
  await mkdir(folder, { recursive: true });
  const bundle = await bundlePlugin();
  const archives: Archive[] = [];
  for (const platform of PLATFORMS.filter((one) => values.only.includes(platformName(one)))) {
    const archive = await makeArchive(platform, bundle, folder);
    archives.push(archive);
    const { size } = await stat(join(folder, archive.name));
    process.stdout.write(`${archive.name}  ${size} bytes  sha256 ${archive.sha256}\n`);
  }
  if (values.from !== undefined) {
    await writeFile(join(folder, 'plugin.yaml'), krewManifest(archives, values.from));
    process.stdout.write(`${join(resolve(folder), 'plugin.yaml')}\n`);
  }
}
