import { listenAsFirstProcess } from '../lib/process/exit.ts';

// A module of its own, imported first: the others take a while to load.
listenAsFirstProcess();
