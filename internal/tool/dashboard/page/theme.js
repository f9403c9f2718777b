// Runs before the first paint, so that a chosen theme does not flash.
document.documentElement.dataset.theme = localStorage.getItem('tally-theme') ?? 'system';
