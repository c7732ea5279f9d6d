import { listenAsFirstProcess } from '../lib/process/stopped.ts';

// A module of its own, imported first: the others take a while to load.
listenAsFirstProcess();
