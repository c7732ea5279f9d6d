/**
 * Makes the files that are served (console/dist): `node console/bundle.ts`. Their names have a hash
 * of their content, but for index.html; each has a compressed twin for both encodings that browsers
 * ask for. Same sources, same bytes.
 */
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { build } from 'vite';

const FOLDER = import.meta.dirname;
const DIST = join(FOLDER, 'dist');

await build({
  configFile: false,
  root: FOLDER,
  // The page is below a path that only the server knows.
  base: './',
  publicDir: false,
  logLevel: 'warn',
  build: {
    outDir: DIST,
    emptyOutDir: true,
    // Flat: RBAC takes a second segment of the path for a subresource.
    assetsDir: '',
    target: 'es2024',
    modulePreload: false,
    reportCompressedSize: false,
    license: { fileName: 'licenses.txt' },
    rolldownOptions: {
      output: { entryFileNames: 'app-[hash].js', chunkFileNames: '[name]-[hash].js' },
    },
  },
});
for (const name of (await readdir(DIST)).sort()) {
  const content = await readFile(join(DIST, name));
  await writeFile(join(DIST, `${name}.gz`), await promisify(gzip)(content, { level: 9 }));
  const params = { [constants.BROTLI_PARAM_SIZE_HINT]: content.length };
  await writeFile(join(DIST, `${name}.br`), await promisify(brotliCompress)(content, { params }));
}
