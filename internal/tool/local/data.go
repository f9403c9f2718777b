package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
)

// exportTimeout bounds the export of a database. It is far more than documents in memory need.
const exportTimeout = 5 * time.Minute

// exportName returns the name of a database's export in the folder of Options.Data. The Firebase
// CLI gives that of the default database the same name, so what it exports can be imported here.
func exportName(database string) string {
	if database == firestore.DefaultDatabaseID {
		return "firestore_export"
	}
	return database
}

// importData adds the documents that the folder of Options.Data keeps to the emulator, which has
// none yet. It makes no events: an audit brings the totals up to date. From then on, Stop exports
// all documents into the folder.
func (s *Stack) importData(ctx context.Context) error {
	for _, database := range s.Config.Databases {
		file := emulator.ExportFile(s.Data, exportName(database))
		_, err := os.Stat(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the first run, or a database that is new
		}
		if err != nil {
			return err
		}

		err = emulator.Import(ctx, s.Addr, s.Config.Project, database, file)
		if err != nil {
			return err
		}
		s.Imported = true
	}

	s.onStop(s.exportData)
	return nil
}

// exportData exports all documents into the folder of Options.Data. What it cannot export stays
// there as it was.
func (s *Stack) exportData() {
	ctx, cancel := context.WithTimeout(context.Background(), exportTimeout)
	defer cancel()
	for _, database := range s.Config.Databases {
		err := s.export(ctx, database)
		if err != nil {
			s.Say("the documents of database %s were not saved, and %s keeps what it had: %v", database, s.Data, err)
			continue
		}
		s.Say("the documents of database %s are saved in %s", database, s.Data)
	}
}

// export exports a database, and lets no other user of the machine read it. Only when its export is
// whole, it replaces the former one.
func (s *Stack) export(ctx context.Context, database string) error {
	temporary, err := os.MkdirTemp(s.Data, "saving-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temporary) }()

	name := exportName(database)
	err = emulator.Export(ctx, s.Addr, s.Config.Project, database, temporary, name)
	if err != nil {
		return err
	}

	exported := filepath.Join(temporary, name)
	err = os.Chmod(exported, 0o700) // the emulator lets everybody read it
	if err != nil {
		return err
	}

	return replace(filepath.Join(s.Data, name), exported)
}

// replace puts a folder in the place of another one, if there is one, which it moves next to the
// first. If that fails, the other one stays.
func replace(place, folder string) error {
	former := folder + ".former"
	err := os.Rename(place, former)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = os.Rename(folder, place)
	if err != nil {
		_ = os.Rename(former, place) // there may be none
	}
	return err
}
