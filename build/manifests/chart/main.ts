import { rm } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { ROOT } from '../../checkout.ts';
import { packageChart } from './chart-files.ts';

/** `npm run chart [-- FOLDER]`: the chart as Helm installs it; default: dist/chart. */
const [folder = join(ROOT, 'dist/chart')] = process.argv.slice(2);
// A template of an earlier version would be installed too.
if (process.argv.length === 2) await rm(folder, { recursive: true, force: true });
await packageChart(folder);
const path = relative('.', folder) || '.';
process.stdout.write(`chart: helm install nodewall ${path} --namespace nodewall-system --create-namespace\n`);
